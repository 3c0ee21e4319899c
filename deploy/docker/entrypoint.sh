#!/bin/sh
# The image's one door. `executor` is what Spark starts on Kubernetes, told by its variables; all else is a verb.
set -e
[ "$1" = executor ] || exec exporter "$@"

home=$(python -c 'from importlib.util import find_spec; print(find_spec("pyspark").submodule_search_locations[0])')
path="${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}${HADOOP_CONF_DIR:+$HADOOP_CONF_DIR:}${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$home/jars/*"
for set in "$EXPORTER_CACHE_DIR"/jars/*/; do path="$path:$set*"; done

set --
at=0
while eval "[ -n \"\${SPARK_JAVA_OPT_$at+given}\" ]"; do
  eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$at\""
  at=$((at + 1))
done
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" -cp "$path" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" \
  --executor-id "$SPARK_EXECUTOR_ID" \
  --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" \
  --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
  --podName "$SPARK_EXECUTOR_POD_NAME"
