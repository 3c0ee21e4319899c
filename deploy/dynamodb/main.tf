# The write-ahead log's table, as `exporter check --create-wal` makes it.

variable "wal_table" {
  description = "The setting wal_table."
  type        = string
  default     = "exporter-wal"
}

resource "aws_dynamodb_table" "wal" {
  name         = var.wal_table
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "pk"
  range_key    = "sk"

  attribute {
    name = "pk"
    type = "S"
  }

  attribute {
    name = "sk"
    type = "S"
  }

  attribute {
    name = "live"
    type = "S"
  }

  local_secondary_index {
    name            = "live"
    range_key       = "live"
    projection_type = "ALL"
  }

  ttl {
    enabled        = true
    attribute_name = "expires_at"
  }

  point_in_time_recovery {
    enabled = true
  }
}
