"""What methods put on the wire: sparse deltas, their routes and sizes, compressed rows."""
