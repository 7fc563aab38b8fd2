{{- define "kapok.name" -}}
{{- if contains "kapok" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-kapok" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "kapok.selector" -}}
app.kubernetes.io/name: kapok
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kapok.labels" -}}
{{ include "kapok.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "kapok.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "kapok.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- /* The pod of both forms. Its data directory is below the volume, as the owner of the volume itself is root. */}}
{{- define "kapok.pod" -}}
metadata:
  labels:
    {{- include "kapok.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "kapok.serviceAccount" . }}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 30
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: kapok
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - up
        - --data-dir=/var/lib/kapok/data
        - --listen=0.0.0.0:6443
        - --log-format=json
        - --tls-san={{ include "kapok.name" . }}
        - --tls-san={{ include "kapok.name" . }}.{{ .Release.Namespace }}
        - --tls-san={{ include "kapok.name" . }}.{{ .Release.Namespace }}.svc
        {{- range .Values.tlsSans }}
        - {{ printf "--tls-san=%s" . | quote }}
        {{- end }}
        {{- with .Values.etcd.endpoints }}
        - {{ printf "--store=etcd://%s" (join "," .) | quote }}
        {{- end }}
        {{- if and .Values.etcd.endpoints .Values.etcd.tlsSecret }}
        - --etcd-cafile=/etc/kapok/etcd/ca.crt
        - --etcd-certfile=/etc/kapok/etcd/tls.crt
        - --etcd-keyfile=/etc/kapok/etcd/tls.key
        {{- end }}
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      ports:
        - name: https
          containerPort: 6443
      startupProbe:
        httpGet:
          path: /readyz
          port: https
          scheme: HTTPS
        periodSeconds: 1
        failureThreshold: 120
      readinessProbe:
        httpGet:
          path: /readyz
          port: https
          scheme: HTTPS
        periodSeconds: 5
      livenessProbe:
        httpGet:
          path: /livez
          port: https
          scheme: HTTPS
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop:
            - ALL
      volumeMounts:
        - name: data
          mountPath: /var/lib/kapok
        - name: tmp
          mountPath: /tmp
        {{- if and .Values.etcd.endpoints .Values.etcd.tlsSecret }}
        - name: etcd
          mountPath: /etc/kapok/etcd
          readOnly: true
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if or .Values.etcd.endpoints (not .Values.persistence.enabled) }}
    - name: data
      emptyDir: {}
    {{- end }}
    {{- if and .Values.etcd.endpoints .Values.etcd.tlsSecret }}
    - name: etcd
      secret:
        secretName: {{ .Values.etcd.tlsSecret }}
        defaultMode: 0440
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
