"""Human validation: samples drawn and blinded, pages for annotators, agreement of answers."""
