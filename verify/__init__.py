"""Is it right? Proofs, differential checks, the certificate, the command line. Chapter: specs/verify.md."""
