"""The report on evaluation logs: tables, figures, and the forms they take."""
