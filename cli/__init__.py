"""The command line: it speaks HTTP to a trainledger server and knows nothing else of ours."""
