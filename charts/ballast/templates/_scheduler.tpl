{{- define "ballast.schedulerName" -}}
{{ include "ballast.name" . }}-scheduler
{{- end }}

{{- define "ballast.schedulerSelector" -}}
{{ include "ballast.selector" . }}
app.kubernetes.io/component: scheduler
{{- end }}

{{/* `v1.36.3`, also of a cluster that says `v1.36.3-eks-1` or `v1.36.3+k3s1`. */}}
{{- define "ballast.schedulerVersion" -}}
{{- $own := semver .Capabilities.KubeVersion.Version -}}
{{- .Values.scheduler.version | default (printf "v%d.%d.%d" $own.Major $own.Minor $own.Patch) -}}
{{- end }}

{{- define "ballast.schedulerImage" -}}
{{- $image := .Values.scheduler.image -}}
{{ $image.registry | default .Values.global.imageRegistry | default "registry.k8s.io" | trimSuffix "/" }}/{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ include "ballast.schedulerVersion" . }}{{ end }}
{{- end }}

{{/* The KubeSchedulerConfiguration: a file of profiles/ with its places filled in. */}}
{{- define "ballast.schedulerConfig" -}}
{{- $scheduler := .Values.scheduler -}}
{{- $text := $scheduler.config -}}
{{- if not $text -}}
  {{- $service := ternary (printf "%s-extender" (include "ballast.name" .)) (include "ballast.name" .) (eq $scheduler.pairing "extender") -}}
  {{- $address := printf "%s://%s.%s.svc:%v" (include "ballast.scheme" . | lower) $service .Release.Namespace .Values.service.port -}}
  {{- $text = .Files.Get (printf "profiles/%s.yaml" $scheduler.pairing) -}}
  {{- $text = $text | replace "SCHEDULER-NAME" $scheduler.name | replace "LABEL-PREFIX" (include "ballast.labelPrefix" .) | replace "http://BALLAST-ADDRESS" $address -}}
  {{- $text = $text | replace "CRANE-TIMEZONE" (include "ballast.setting" (list . "publishing" "crane_timezone") | default "Asia/Shanghai") -}}
{{- end -}}
{{- $config := fromYaml $text -}}
{{- with $config.Error }}{{ fail (printf "scheduler.config is no YAML: %s" .) }}{{ end -}}
{{- $_ := set $config "leaderElection" (dict "leaderElect" true "resourceName" (include "ballast.schedulerName" .) "resourceNamespace" .Release.Namespace) -}}
{{- if and (not $scheduler.config) (eq $scheduler.pairing "extender") (eq (include "ballast.scheme" .) "HTTPS") -}}
  {{- $extender := first $config.extenders -}}
  {{- $_ := set $extender "enableHTTPS" true -}}
  {{- $_ := set $extender "tlsConfig" (ternary (dict "caFile" "/etc/ballast/tls/ca.crt") dict (ne (include "ballast.tlsSecret" .) "")) -}}
{{- end -}}
{{- if include "ballast.shownToken" . -}}
  {{- $extender := first $config.extenders -}}
  {{- $_ := set $extender "urlPrefix" (printf "%s/EXTENDER-TOKEN" $extender.urlPrefix) -}}
{{- end -}}
{{ toYaml $config }}
{{- end }}

{{/* Secret of the token that the chart's scheduler shows; "" for none. */}}
{{- define "ballast.shownToken" -}}
{{- if eq .Values.scheduler.pairing "extender" }}{{ include "ballast.extenderSecret" . }}{{ end -}}
{{- end }}
