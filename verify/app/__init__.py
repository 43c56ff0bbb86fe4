"""The application: the command line, the main job, certificates, reports (specs/verify.md, "Command line")."""
