{{- define "gwready.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "gwready.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "gwready.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "gwready.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gwready.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gwready.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gwready.labels" -}}
{{ include "gwready.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gwready.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- /* The file that the agent reads: the user's part, and the one path that is not the agent's default in a container. */ -}}
{{- define "gwready.config" -}}
{{- toYaml (mustMergeOverwrite (deepCopy .Values.config) (dict "host" (dict "cgroup" "/host/cgroup"))) -}}
{{- end -}}

{{- define "gwready.adminPort" -}}
{{- $admin := default (dict) .Values.config.admin -}}
{{- default "9681" (regexFind "[0-9]+$" (default "" $admin.listen)) -}}
{{- end -}}
