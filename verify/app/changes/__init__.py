"""What has changed between two reports (specs/verify.md, "Two reports")."""
