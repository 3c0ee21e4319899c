# The exporter as a service of count = N tasks on machines that have Python, Java 17 and the exporter installed.
# With `exec` instead of `raw_exec` a task sees its own allocation only: the lake, Python and Java then have to be host
# volumes (`volume`, `volume_mount`), or the lake goes with the allocation. In containers: exporter-docker.nomad.hcl.
#
#   nomad job run -var count=3 -var config=exporter.toml exporter.nomad.hcl

variable "count" {
  type    = number
  default = 2
}

variable "exporter" {
  type        = string
  description = "The command on the machines. Nomad searches no PATH for it: an absolute path."
  default     = "/usr/local/bin/exporter"
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
        command = var.exporter
        args    = ["run", "--config", "${NOMAD_TASK_DIR}/exporter.toml"]
      }

      # stop_budget_secs, and 15 s for leaving the group and ending the JVM. A client cuts what is beyond its own
      # max_kill_timeout (30 s unless its configuration says more): for a longer budget raise both.
      kill_signal  = "SIGTERM"
      kill_timeout = "30s"

      env {
        # Scratch files go with the allocation: what a killed task leaves, too.
        TMPDIR                    = "${NOMAD_ALLOC_DIR}/tmp"
        EXPORTER_HTTP_HOST        = "0.0.0.0"
        EXPORTER_STOP_BUDGET_SECS = "15"
        EXPORTER_HTTP_PORT        = "${NOMAD_PORT_http}"
        # For a fixed share per task instead of a consumer group:
        # EXPORTER_ASSIGNMENT = "static"
        # EXPORTER_PARTITIONS = "${NOMAD_ALLOC_INDEX}/2"
      }

      # It may hold a password.
      template {
        destination = "local/exporter.toml"
        perms       = "600"
        data        = file(var.config)
      }

      # Credentials of the write-ahead log, from Nomad's variables (or `vault` in the same way). A template that names
      # a variable waits for it: without the question the task would stay pending where there is none.
      template {
        destination = "secrets/aws.env"
        env         = true
        perms       = "600"
        data        = <<-EOT
          {{ if nomadVarExists "nomad/jobs/exporter" }}{{ with nomadVar "nomad/jobs/exporter" }}
          AWS_REGION={{ .aws_region }}
          AWS_ACCESS_KEY_ID={{ .aws_access_key_id }}
          AWS_SECRET_ACCESS_KEY={{ .aws_secret_access_key }}
          {{ end }}{{ end }}
        EOT
      }

      resources {
        cpu    = 2000
        memory = 3072
      }
    }
  }
}
