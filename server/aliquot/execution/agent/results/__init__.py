"""Results of sessions: RESULT_DIR listed, read and copied."""
