"""What a person asks for beside the export: look, prove, mend, tend."""
