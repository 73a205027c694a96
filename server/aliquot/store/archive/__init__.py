"""Archive: old rows, sealed and moved out of the tables into Parquet files with a manifest each."""
