"""Whether a device plan is right (rule M8; specs/verify.md, "devices")."""
