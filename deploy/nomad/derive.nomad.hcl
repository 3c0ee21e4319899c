# One task that makes the derived tables of the settings, beside the exporter's job; `count` stays 1. It answers on no
# port: `exporter derive status` tells how far it is. On machines that have Python, Java 17 and the exporter installed.
#
#   nomad job run -var config=exporter.toml derive.nomad.hcl

variable "exporter" {
  type        = string
  description = "The command on the machines. Nomad searches no PATH for it: an absolute path."
  default     = "/usr/local/bin/exporter"
}

variable "config" {
  type        = string
  description = "The settings, those of the exporter's job."
  default     = "exporter.toml"
}

job "exporter-derive" {
  type = "service"

  group "exporter-derive" {
    count = 1

    # Exits 69 and 75 are cured by starting again; so are runs that were killed.
    restart {
      attempts = 5
      interval = "10m"
      delay    = "15s"
      mode     = "delay"
    }

    task "exporter" {
      driver = "raw_exec"

      config {
        command = var.exporter
        args    = ["derive", "run", "--config", "${NOMAD_TASK_DIR}/exporter.toml"]
      }

      # stop_budget_secs, and 15 s for the ending of a run and of the JVM; see exporter.nomad.hcl.
      kill_signal  = "SIGTERM"
      kill_timeout = "30s"

      env {
        TMPDIR                    = "${NOMAD_ALLOC_DIR}/tmp"
        EXPORTER_STOP_BUDGET_SECS = "15"
      }

      # It may hold a password.
      template {
        destination = "local/exporter.toml"
        perms       = "600"
        data        = file(var.config)
      }

      # Credentials of the store, from Nomad's variables (or `vault` in the same way); see exporter.nomad.hcl.
      template {
        destination = "secrets/aws.env"
        env         = true
        perms       = "600"
        data        = <<-EOT
          {{ if nomadVarExists "nomad/jobs/exporter-derive" }}{{ with nomadVar "nomad/jobs/exporter-derive" }}
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
