# The exporter as a service of count = N containers of the image that deploy/docker/Dockerfile makes.
# Without containers: exporter.nomad.hcl.
#
#   nomad job run -var image=kafka-delta-exporter:0.1.0 -var lake=/data/lake exporter-docker.nomad.hcl

variable "count" {
  type    = number
  default = 2
}

variable "image" {
  type    = string
  default = "kafka-delta-exporter:0.1.0"
}

variable "lake" {
  type        = string
  description = "Folder of the machines, on storage that they share, that becomes /lake: table_root = \"file:///lake\"."
  default     = "/data/lake"
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
      port "http" {
        to = 9108
      }
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
      driver = "docker"

      config {
        image           = var.image
        args            = ["run", "--config", "/local/exporter.toml"]
        ports           = ["http"]
        init            = true
        readonly_rootfs = true
        volumes         = ["${var.lake}:/lake"]
      }

      # stop_budget_secs, and 15 s for leaving the group and ending the JVM. A client cuts what is beyond its own
      # max_kill_timeout (30 s unless its configuration says more): for a longer budget raise both.
      kill_signal  = "SIGTERM"
      kill_timeout = "30s"

      env {
        EXPORTER_HTTP_HOST        = "0.0.0.0"
        EXPORTER_STOP_BUDGET_SECS = "15"
        EXPORTER_HTTP_PORT        = "9108"
        # For a fixed share per task instead of a consumer group:
        # EXPORTER_ASSIGNMENT = "static"
        # EXPORTER_PARTITIONS = "${NOMAD_ALLOC_INDEX}/2"
      }

      # It may hold a password; the image's user reads it.
      template {
        destination = "local/exporter.toml"
        perms       = "600"
        uid         = 10001
        gid         = 10001
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
