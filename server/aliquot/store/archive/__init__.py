"""The archive: history that was sealed and taken out of the tables, as Parquet files with a manifest each."""
