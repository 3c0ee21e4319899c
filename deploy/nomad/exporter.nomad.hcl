# The exporter as a service of count = N tasks on machines that have Python, Java 17 and the exporter installed
# (raw_exec; exec is the same with a chroot). In containers: exporter-docker.nomad.hcl.
#
#   nomad job run -var count=3 -var config=exporter.toml exporter.nomad.hcl

variable "count" {
  type    = number
  default = 2
}

variable "config" {
  type        = string
  description = "The settings, see deploy/exporter.example.toml."
  default     = "exporter.toml"
}

job "exporter" {
  type = "service"

  update {
    max_parallel     = 1
    health_check     = "checks"
    min_healthy_time = "10s"
    healthy_deadline = "5m"
  }

  group "exporter" {
    count = var.count

    network {
      port "http" {}
    }

    # Exits 69 and 75 are cured by starting again; 70 is not, and the alert ExporterRestarts says so.
    restart {
      attempts = 5
      interval = "10m"
      delay    = "15s"
      mode     = "delay"
    }

    service {
      name     = "exporter"
      provider = "nomad"
      port     = "http"

      check {
        name     = "alive"
        type     = "http"
        path     = "/healthz"
        interval = "10s"
        timeout  = "5s"

        check_restart {
          limit = 3
          grace = "300s"
        }
      }

      # Red during an outage: no reason to start again, so it has no check_restart.
      check {
        name     = "ready"
        type     = "http"
        path     = "/readyz"
        interval = "10s"
        timeout  = "5s"
      }
    }

    task "exporter" {
      driver = "raw_exec"

      config {
        command = "exporter"
        args    = ["run", "--config", "${NOMAD_TASK_DIR}/exporter.toml"]
      }

      # stop_budget_secs (20) and what leaving the group and ending the JVM take.
      kill_signal  = "SIGTERM"
      kill_timeout = "45s"

      env {
        # Scratch files go with the allocation: what a killed task leaves, too.
        TMPDIR             = "${NOMAD_ALLOC_DIR}/tmp"
        EXPORTER_HTTP_HOST = "0.0.0.0"
        EXPORTER_HTTP_PORT = "${NOMAD_PORT_http}"
        # For a fixed share per task instead of a consumer group:
        # EXPORTER_ASSIGNMENT = "static"
        # EXPORTER_PARTITIONS = "${NOMAD_ALLOC_INDEX}/2"
      }

      template {
        destination = "local/exporter.toml"
        data        = file(var.config)
      }

      # Credentials of the write-ahead log, from Nomad's variables (or `vault` in the same way).
      template {
        destination = "secrets/aws.env"
        env         = true
        data        = <<-EOT
          {{ with nomadVar "nomad/jobs/exporter" }}
          AWS_REGION={{ .aws_region }}
          AWS_ACCESS_KEY_ID={{ .aws_access_key_id }}
          AWS_SECRET_ACCESS_KEY={{ .aws_secret_access_key }}
          {{ end }}
        EOT
      }

      resources {
        cpu    = 2000
        memory = 3072
      }
    }
  }
}
