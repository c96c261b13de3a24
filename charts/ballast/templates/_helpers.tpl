{{- define "ballast.name" -}}
{{ .Values.fullnameOverride | default "ballast" | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* Cluster-scoped objects carry the namespace, so that one Ballast per namespace can coexist. */}}
{{- define "ballast.clusterName" -}}
{{ include "ballast.name" . }}.{{ .Release.Namespace }}
{{- end }}

{{- define "ballast.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (ternary (include "ballast.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "ballast.image" -}}
{{- $image := .Values.image -}}
{{- with $image.registry | default .Values.global.imageRegistry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "ballast.labels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: ballast
{{ include "ballast.selector" . }}
{{- end }}

{{- define "ballast.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default "ballast" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* One setting by part and field, "" when unset. */}}
{{- define "ballast.setting" -}}
{{- $value := dig (index . 1) (index . 2) nil ((index . 0).Values.settings | default dict) -}}
{{- if not (kindIs "invalid" $value) }}{{ include "ballast.text" (list (index . 2) $value) }}{{ end -}}
{{- end }}

{{/* A setting's value as its environment variable holds it; YAML reads a bare on and off as booleans. */}}
{{- define "ballast.text" -}}
{{- $value := index . 1 -}}
{{- if and (eq (index . 0) "mode") (kindIs "bool" $value) }}{{ ternary "on" "off" $value }}
{{- else if kindIs "string" $value }}{{ $value }}
{{- else }}{{ toRawJson $value }}
{{- end -}}
{{- end }}

{{- define "ballast.mode" -}}
{{ include "ballast.setting" (list (index . 0) (index . 1) "mode") | default (ternary "off" "dry-run" (eq (index . 1) "batch")) }}
{{- end }}

{{/* (context, part): its mode is on; it is not off. "" is no. */}}
{{- define "ballast.isOn" -}}
{{- if eq (include "ballast.mode" .) "on" }}true{{ end -}}
{{- end }}

{{- define "ballast.plans" -}}
{{- if ne (include "ballast.mode" .) "off" }}true{{ end -}}
{{- end }}

{{- define "ballast.publishes" -}}
{{- include "ballast.isOn" (list . "publishing") -}}
{{- end }}

{{/* Evictions taint nodes that pods leave, or mark nodes that are emptied. */}}
{{- define "ballast.marksNodes" -}}
{{- if include "ballast.isOn" (list . "eviction") -}}
  {{- $planner := "consolidate" -}}
  {{- $modes := include "ballast.setting" (list . "eviction" "modes") | default "{}" | fromJson -}}
  {{- $acts := contains $planner (include "ballast.setting" (list . "eviction" "planners")) -}}
  {{- if hasKey $modes $planner }}{{ $acts = has (get $modes $planner) (list "on" true) }}{{ end -}}
  {{- if or (eq (include "ballast.setting" (list . "eviction" "landing")) "taint") $acts }}true{{ end -}}
{{- end -}}
{{- end }}

{{- define "ballast.surges" -}}
{{- if and (include "ballast.isOn" (list . "eviction")) (eq (include "ballast.setting" (list . "eviction" "surge")) "true") }}true{{ end -}}
{{- end }}

{{/* The only pods of Deployments are moved by a rollout: only where a policy narrows what may be changed of them. */}}
{{- define "ballast.restarts" -}}
{{- if and (include "ballast.isOn" (list . "eviction")) (eq (include "ballast.setting" (list . "eviction" "single")) "restart") (include "ballast.limits" .) }}true{{ end -}}
{{- end }}

{{/* Evictions may have left something that has to be taken back. */}}
{{- define "ballast.leavesMarks" -}}
{{- if or (include "ballast.marksNodes" .) (include "ballast.surges" .) }}true{{ end -}}
{{- end }}

{{- define "ballast.policies" -}}
{{- toRawJson (dig "power" "policies" list (.Values.settings | default dict) | default list) -}}
{{- end }}

{{/* Who takes part in the power policies, as JSON: [{group, resource, namespace, name, marksPods}], each once. */}}
{{- define "ballast.targets" -}}
{{- $targets := list -}}
{{- range $policy := include "ballast.policies" . | fromJsonArray -}}
  {{- $members := $policy.independents | default list -}}
  {{- range $policy.groups | default list }}{{ $members = concat $members (.members | default list) }}{{ end -}}
  {{- range $members -}}
    {{- $parts := splitList "/" (.ref | default "" | toString | trim) -}}
    {{- if eq (len $parts) 2 }}{{ $parts = prepend $parts "deployments.apps" }}{{ end -}}
    {{- $kind := splitn "." 2 (first $parts) -}}
    {{- if or (ne (len $parts) 3) (not $kind._1) -}}
      {{- fail (printf "settings.power.policies: ref %q: expected namespace/name or kind.group/namespace/name, such as prod/api" (.ref | default "" | toString)) -}}
    {{- end -}}
    {{- $targets = append $targets (dict "group" $kind._1 "resource" $kind._0 "namespace" (index $parts 1) "name" (index $parts 2) "marksPods" (eq (toString $policy.hotPodsFirst) "true")) -}}
  {{- end -}}
{{- end -}}
{{- toRawJson (uniq $targets) -}}
{{- end }}

{{/* Some part is not off: there is a leader, and a state to keep. */}}
{{- define "ballast.acts" -}}
{{- range list "publishing" "power" "eviction" "batch" }}{{ if ne (include "ballast.mode" (list $ .)) "off" }}true{{ end }}{{ end -}}
{{- end }}

{{- define "ballast.leads" -}}
{{- if and (include "ballast.acts" .) (ne (include "ballast.setting" (list . "lease" "enabled")) "false") }}true{{ end -}}
{{- end }}

{{- define "ballast.prefix" -}}
{{ include "ballast.setting" (list . "publishing" "prefix") | default "ballast.dev" }}
{{- end }}

{{/* Prefix of the labels of nodes: that of the settings, else the one that no kubelet may write. */}}
{{- define "ballast.labelPrefix" -}}
{{ include "ballast.setting" (list . "publishing" "label_prefix") | default (include "ballast.setting" (list . "publishing" "prefix")) | default "ballast.node-restriction.kubernetes.io" }}
{{- end }}

{{/* It as a variable, where the settings do not say it and it is another than the prefix. */}}
{{- define "ballast.labelPrefixDefault" -}}
{{- $prefix := include "ballast.labelPrefix" . -}}
{{- $named := include "ballast.setting" (list . "publishing" "label_prefix") -}}
{{- range .Values.extraEnv }}{{ if eq .name "BALLAST_PUBLISHING__LABEL_PREFIX" }}{{ $named = .name }}{{ end }}{{ end -}}
{{- if and (ne $prefix (include "ballast.prefix" .)) (not $named) }}{{ $prefix }}{{ end -}}
{{- end }}

{{- define "ballast.leaseName" -}}
{{ include "ballast.setting" (list . "lease" "name") | default "ballast" }}
{{- end }}

{{- define "ballast.leaseNamespace" -}}
{{ include "ballast.setting" (list . "lease" "namespace") | default .Release.Namespace }}
{{- end }}

{{- define "ballast.port" -}}
{{ include "ballast.setting" (list . "http" "port") | default "2020" }}
{{- end }}

{{/* The certificate comes from settings or existingSecrets; the chart then leaves TLS alone. */}}
{{- define "ballast.ownTls" -}}
{{- if or (include "ballast.setting" (list . "http" "tls_cert_file")) (dig "http" "tls_cert_file" "" (.Values.existingSecrets | default dict)) }}true{{ end -}}
{{- end }}

{{/* Name of the Secret with tls.crt, tls.key and ca.crt that the daemon serves with; "" for none. */}}
{{- define "ballast.tlsSecret" -}}
{{- $enabled := toString .Values.tls.enabled -}}
{{- $asked := and .Values.scheduler.enabled (eq .Values.scheduler.pairing "extender") (not .Values.scheduler.config) -}}
{{- if and (not (include "ballast.ownTls" .)) (or (eq $enabled "true") (and (eq $enabled "auto") $asked)) -}}
{{ .Values.tls.existingSecret | default (printf "%s-%s" (include "ballast.name" .) (ternary "tls" "serving" (ne (include "ballast.certManager" .) ""))) }}
{{- end -}}
{{- end }}

{{/* Settings that ask the extender's callers for a secret, by part and field. */}}
{{- define "ballast.callerSettings" -}}
{{- $set := list -}}
{{- range list (list "extender" "token_file") (list "extender" "client_ca_file") (list "http" "client_ca_file") -}}
  {{- $variable := printf "BALLAST_%s__%s" (first .) (last .) | upper -}}
  {{- $named := or (include "ballast.setting" (prepend . $)) (dig (first .) (last .) "" ($.Values.existingSecrets | default dict)) -}}
  {{- range $.Values.extraEnv }}{{ if eq .name $variable }}{{ $named = true }}{{ end }}{{ end -}}
  {{- if $named }}{{ $set = append $set (join "." .) }}{{ end -}}
{{- end -}}
{{- toRawJson $set -}}
{{- end }}

{{/* Name of the chart's own Secret with the token of the extender's callers; "" for none. */}}
{{- define "ballast.extenderSecret" -}}
{{- $configured := and .Values.scheduler.enabled .Values.scheduler.config -}}
{{- if and (dig "token" "create" false (.Values.extender | default dict)) (not $configured) (eq (include "ballast.callerSettings" .) "[]") -}}
{{ include "ballast.name" . }}-extender-token
{{- end -}}
{{- end }}

{{/* Name of the Secret with a certificate that the daemon's pods make; "" where something else makes it, or none is needed. */}}
{{- define "ballast.madeTls" -}}
{{- if not (or .Values.tls.existingSecret (include "ballast.certManager" .)) }}{{ include "ballast.tlsSecret" . }}{{ end -}}
{{- end }}

{{/* cert-manager makes the certificate: `true`, or a map with `enabled`. */}}
{{- define "ballast.certManager" -}}
{{- $given := .Values.tls.certManager -}}
{{- if kindIs "map" $given }}{{ if $given.enabled }}true{{ end }}{{ else if eq (toString $given) "true" }}true{{ end -}}
{{- end }}

{{/* Names under which the Services are reached, as JSON. */}}
{{- define "ballast.hostNames" -}}
{{- $names := list "localhost" -}}
{{- range $suffix := list "" "-extender" -}}
{{- $service := printf "%s%s" (include "ballast.name" $) $suffix -}}
{{- range list "%s" "%s.%s" "%s.%s.svc" "%s.%s.svc.cluster.local" -}}
{{- $names = append $names (ternary $service (printf . $service $.Release.Namespace) (eq . "%s")) -}}
{{- end -}}
{{- end -}}
{{- toRawJson $names -}}
{{- end }}

{{- define "ballast.scheme" -}}
{{- if or (include "ballast.ownTls" .) (include "ballast.tlsSecret" .) }}HTTPS{{ else }}HTTP{{ end -}}
{{- end }}

{{/* The extender's port where it has one of its own; "" where it is asked at the common one. */}}
{{- define "ballast.extenderPort" -}}
{{- with include "ballast.setting" (list . "http" "extender_bind") }}{{ splitList ":" . | last }}{{ end -}}
{{- end }}

{{- define "ballast.healthPort" -}}
{{ include "ballast.setting" (list . "http" "health_port") | default "2021" }}
{{- end }}

{{/* The settings as a container's env, each name once. */}}
{{- define "ballast.env" -}}
{{- include "ballast.envWith" (list . true) -}}
{{- end }}

{{/* (context, whether the Secrets that the chart makes are mounted) */}}
{{- define "ballast.envWith" -}}
{{- $mounted := index . 1 -}}
{{- with index . 0 -}}
{{- $env := list -}}
{{- if and $mounted (include "ballast.extenderSecret" .) -}}
  {{- $env = append $env (dict "name" "BALLAST_EXTENDER__TOKEN_FILE" "value" "/etc/ballast/extender/token") -}}
{{- end -}}
{{- if and $mounted (include "ballast.tlsSecret" .) -}}
{{- range $field, $file := dict "tls_cert_file" "tls.crt" "tls_key_file" "tls.key" -}}
  {{- $env = append $env (dict "name" (printf "BALLAST_HTTP__%s" $field | upper) "value" (printf "/etc/ballast/tls/%s" $file)) -}}
{{- end -}}
{{- end -}}
{{- range $part, $fields := .Values.settings -}}
  {{- range $field, $value := $fields -}}
    {{- if not (or (kindIs "invalid" $value) (eq $field "policies")) -}}
      {{- $env = append $env (dict "name" (printf "BALLAST_%s__%s" $part $field | upper) "value" (include "ballast.text" (list $field $value))) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- with include "ballast.labelPrefixDefault" . -}}
  {{- $env = append $env (dict "name" "BALLAST_PUBLISHING__LABEL_PREFIX" "value" .) -}}
{{- end -}}
{{- range $part, $fields := .Values.existingSecrets -}}
  {{- range $field, $ref := $fields -}}
    {{- $env = append $env (dict "name" (printf "BALLAST_%s__%s" $part $field | upper) "value" (printf "/etc/ballast/secrets/%s/%s" $part $field)) -}}
  {{- end -}}
{{- end -}}
{{- if ne (include "ballast.policies" .) "[]" -}}
  {{- $env = append $env (dict "name" "BALLAST_CONFIG_FILE" "value" "/etc/ballast/config/ballast.yaml") -}}
{{- end -}}
{{- if not (include "ballast.acts" .) -}}
  {{- if not (include "ballast.setting" (list . "lease" "enabled")) -}}
    {{- $env = append $env (dict "name" "BALLAST_LEASE__ENABLED" "value" "false") -}}
  {{- end -}}
{{- end -}}
{{- if and (ne (include "ballast.name" .) "ballast") (not (include "ballast.setting" (list . "extender" "service"))) -}}
  {{- $env = append $env (dict "name" "BALLAST_EXTENDER__SERVICE" "value" (printf "%s-extender" (include "ballast.name" .))) -}}
{{- end -}}
{{- $env = append $env (dict "name" "POD_IP" "valueFrom" (dict "fieldRef" (dict "fieldPath" "status.podIP"))) -}}
{{- range $field := list "name" "namespace" -}}
  {{- $env = append $env (dict "name" (printf "POD_%s" $field | upper) "valueFrom" (dict "fieldRef" (dict "fieldPath" (printf "metadata.%s" $field)))) -}}
{{- end -}}
{{- $env = concat $env (.Values.extraEnv | default list) -}}
{{- $seen := dict -}}
{{- range $env -}}
  {{- if hasKey $seen .name }}{{ fail (printf "%s is set twice: settings, existingSecrets and extraEnv may each set a variable, but only one of them" .name) }}{{ end -}}
  {{- $_ := set $seen .name true -}}
{{- end -}}
{{ toYaml $env }}
{{- end -}}
{{- end }}

{{/* Some part is on: Events tell what it did. */}}
{{- define "ballast.changes" -}}
{{- range list "publishing" "power" "eviction" "batch" }}{{ include "ballast.isOn" (list $ .) }}{{ end -}}
{{- end }}

{{/* What power, eviction and batch have to see. */}}
{{- define "ballast.readRules" -}}
{{- $seen := dict -}}
{{- $targets := list -}}
{{- if include "ballast.plans" (list . "power") }}{{ $targets = include "ballast.targets" . | fromJsonArray }}{{ end -}}
{{- $eviction := include "ballast.plans" (list . "eviction") -}}
{{- if or $targets $eviction -}}
  {{- $_ := set $seen "autoscaling" (list "horizontalpodautoscalers") -}}
{{- end -}}
{{- if $eviction -}}
  {{- $_ := set $seen "apps" (list "daemonsets" "deployments" "replicasets" "statefulsets") -}}
  {{- $_ := set $seen "policy" (list "poddisruptionbudgets") -}}
  {{- /* where pods can go: volumes, and nodes that autoscalers add or remove */ -}}
  {{- $_ := set $seen "" (list "events" "persistentvolumeclaims" "persistentvolumes" "resourcequotas") -}}
  {{- $_ := set $seen "storage.k8s.io" (list "csinodes" "storageclasses") -}}
  {{- $_ := set $seen "karpenter.sh" (list "nodeclaims") -}}
  {{- $_ := set $seen "autoscaling.k8s.io" (list "verticalpodautoscalers") -}}
{{- end -}}
{{- if or $targets $eviction (include "ballast.plans" (list . "batch")) -}}
  {{- $_ := set $seen "" (append (get $seen "" | default list) "namespaces" | sortAlpha) -}}
{{- end -}}
{{- if $targets }}{{ $_ := set $seen "keda.sh" (list "scaledobjects") }}{{ end -}}
{{- /* one by one: who scaled a target last, and the scale of kinds outside apps */ -}}
{{- $single := dict -}}
{{- if $targets }}{{ $single = dict "autoscaling" (list "horizontalpodautoscalers") "keda.sh" (list "scaledobjects") }}{{ end -}}
{{- range $targets -}}
  {{- $_ := set $seen .group (append (get $seen .group | default list) .resource | uniq | sortAlpha) -}}
  {{- $_ := set $single .group (append (get $single .group | default list) .resource | uniq | sortAlpha) -}}
  {{- /* what an owner of another kind does to claims stands in its StatefulSets */ -}}
  {{- if ne .group "apps" }}{{ $_ := set $seen "apps" (append (get $seen "apps" | default list) "statefulsets" | uniq | sortAlpha) }}{{ end -}}
  {{- if ne .group "apps" }}{{ $_ := set $single .group (append (get $single .group) (printf "%s/scale" .resource) | uniq | sortAlpha) }}{{ end -}}
{{- end -}}
{{- range $group, $resources := $seen }}
- apiGroups: [{{ $group | quote }}]
  resources: {{ toRawJson $resources }}
  verbs: [list, watch]
{{- end }}
{{- range $group, $resources := $single }}
- apiGroups: [{{ $group | quote }}]
  resources: {{ toRawJson $resources }}
  verbs: [get]
{{- end }}
{{- if $eviction }}
# how many replicas owners of other kinds ask for
- apiGroups: ["*"]
  resources: ["*/scale"]
  verbs: [get]
{{- end }}
{{- if or $targets $eviction }}
# which pods Ballast itself reads from: they are left alone
- apiGroups: [""]
  resources: [services]
  verbs: [get]
{{- end }}
{{- end }}

{{/* Whether admission policies limit what Ballast's accounts may do. */}}
{{- define "ballast.limits" -}}
{{- $served := or (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy") (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- if and .Values.admissionPolicy.enabled $served }}true{{ end -}}
{{- end }}

{{/* A map without its null fields, as YAML. */}}
{{- define "ballast.withoutNulls" -}}
{{- $kept := dict -}}
{{- range $key, $value := . }}{{ if not (kindIs "invalid" $value) }}{{ $_ := set $kept $key $value }}{{ end }}{{ end -}}
{{ toYaml $kept }}
{{- end }}

{{- define "ballast.podSecurityContext" -}}
{{ include "ballast.withoutNulls" (.Values.podSecurityContext | default dict) }}
{{- end }}

{{- define "ballast.containerSecurityContext" -}}
{{ include "ballast.withoutNulls" (.Values.securityContext | default dict) }}
{{- end }}

{{/* Mounts and volumes of what the settings name: (context, whether Secrets may be missing). */}}
{{- define "ballast.settingsMounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if ne (include "ballast.policies" .) "[]" }}
- {name: config, mountPath: /etc/ballast/config, readOnly: true}
{{- end }}
{{- if .Values.existingSecrets }}
- {name: secrets, mountPath: /etc/ballast/secrets, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "ballast.settingsVolumes" -}}
{{- $check := index . 1 -}}
{{- with index . 0 -}}
- {name: tmp, emptyDir: {}}
{{- if ne (include "ballast.policies" .) "[]" }}
- name: config
  configMap: {name: {{ include "ballast.name" . }}-config{{ if $check }}-check{{ end }}}
{{- end }}
{{- if .Values.existingSecrets }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range $part, $fields := .Values.existingSecrets }}
      {{- range $field, $ref := $fields }}
      - secret:
          name: {{ $ref.name }}
          {{- if $check }}
          optional: true  # the check then says which file is missing
          {{- end }}
          items:
            - {key: {{ $ref.key | quote }}, path: {{ $part }}/{{ $field }}}
      {{- end }}
      {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "ballast.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A pod that runs `ballast release` once: (context, arguments). */}}
{{- define "ballast.releasePod" -}}
{{- $ := index . 0 -}}
metadata:
  labels:
    {{- include "ballast.labels" $ | nindent 4 }}
    app.kubernetes.io/component: release
  {{- with $.Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  restartPolicy: Never
  serviceAccountName: {{ include "ballast.name" $ }}-{{ index . 2 }}
  automountServiceAccountToken: true
  enableServiceLinks: false
  {{- with include "ballast.placement" $ | trim }}{{ . | nindent 2 }}{{ end }}
  securityContext: {{- include "ballast.podSecurityContext" $ | nindent 4 }}
  containers:
    - name: release
      image: {{ include "ballast.image" $ }}
      imagePullPolicy: {{ $.Values.image.pullPolicy }}
      args: {{ toRawJson (index . 1) }}
      env: {{- include "ballast.releaseEnv" $ | trim | nindent 8 }}
      securityContext: {{- include "ballast.containerSecurityContext" $ | nindent 8 }}
      resources: {{- toYaml $.Values.jobResources | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
  volumes:
    - {name: tmp, emptyDir: {}}
{{- end }}

{{/* What `ballast release` has to know of the settings. */}}
{{- define "ballast.releaseEnv" -}}
{{- range $setting := list (list "publishing" "prefix") (list "publishing" "label_prefix") (list "publishing" "crane") (list "cluster" "node_selector") (list "cluster" "qps") (list "cluster" "burst") (list "lease" "name") (list "lease" "namespace") (list "log" "level") (list "log" "format") }}
{{- with include "ballast.setting" (list $ (index $setting 0) (index $setting 1)) }}
- name: {{ printf "BALLAST_%s__%s" (index $setting 0) (index $setting 1) | upper }}
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- with include "ballast.labelPrefixDefault" . }}
- name: BALLAST_PUBLISHING__LABEL_PREFIX
  value: {{ . | quote }}
{{- end }}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- end }}

{{/* The ConfigMap of the state, and the parts that it has when it is large. */}}
{{- define "ballast.stateNames" -}}
[ballast-state{{ range until 8 }}, ballast-state-{{ add1 . }}{{ end }}]
{{- end }}

{{/* Rights of `ballast release` with these parts. */}}
{{- define "ballast.releaseRules" -}}
{{- if has "publishing" . }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, patch]
{{- end }}
{{- if has "power" . }}
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, patch]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [get, list, patch]
{{- end }}
{{- if has "eviction" . }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, patch]
- apiGroups: [apps]
  resources: [deployments/scale]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: {{ include "ballast.stateNames" . }}
  verbs: [get, update]
{{- end }}
{{- if has "batch" . }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, patch]
{{- end }}
{{- end }}

{{/* The settings that no variable can hold; JSON keeps the digits of large numbers. */}}
{{- define "ballast.configFile" -}}
ballast.yaml: |
  power:
    policies:
    {{- range include "ballast.policies" . | fromJsonArray }}
    - {{ toRawJson . }}
    {{- end }}
{{- end }}
