"""What is kept on disk and how it is recognised: whole files, folders, seals, fingerprints, code from files."""
