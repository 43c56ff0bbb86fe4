"""The stage `devices`: where every value lives, and the copies between (rule M8; specs/lower.md, "devices")."""
