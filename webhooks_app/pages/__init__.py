"""What the console's and the customers' pages share: sentences, formats, forms and requests with their answers."""
