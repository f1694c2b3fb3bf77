"""What is asked: suites as data, and the code that validates, expands and renders them."""
