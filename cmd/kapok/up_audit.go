package main

import (
	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// auditFlags are named as those of kube-apiserver.
func auditFlags(f *pflag.FlagSet, o *kapok.AuditOptions) {
	f.StringVar(&o.PolicyFile, "audit-policy-file", "", "file with an audit Policy: which requests are recorded, and at which level")
	f.StringVar(&o.LogPath, "audit-log-path", "", "file for audit events, one line of JSON for each; - is the standard output")
	f.IntVar(&o.LogMaxSize, "audit-log-maxsize", 0, "size in MiB at which the audit log is rotated (default 100)")
	f.IntVar(&o.LogMaxBackups, "audit-log-maxbackup", 0, "number of rotated audit logs to keep (default all)")
	f.IntVar(&o.LogMaxAge, "audit-log-maxage", 0, "days to keep rotated audit logs (default forever)")
	f.BoolVar(&o.LogCompress, "audit-log-compress", false, "compress rotated audit logs with gzip")
	truncateFlags(f, "log", &o.LogTruncateEnabled, &o.LogTruncateMaxEventSize, &o.LogTruncateMaxBatchSize)
	f.StringVar(&o.Webhook, "audit-webhook-config-file", "", "kubeconfig with the address to send batches of audit events to")
	f.DurationVar(&o.WebhookInitialBackoff, "audit-webhook-initial-backoff", 0, "delay before the first retry of a batch (default 10s)")
	f.IntVar(&o.WebhookBatchMaxSize, "audit-webhook-batch-max-size", 0, "maximum number of events in a batch (default 400)")
	f.DurationVar(&o.WebhookBatchMaxWait, "audit-webhook-batch-max-wait", 0, "maximum time that a batch waits for more events (default 30s)")
	truncateFlags(f, "webhook", &o.WebhookTruncateEnabled, &o.WebhookTruncateMaxEventSize, &o.WebhookTruncateMaxBatchSize)
}

// truncateFlags are those of the audit log, or of the audit webhook.
func truncateFlags(f *pflag.FlagSet, of string, enabled *bool, event, batch *int) {
	f.BoolVar(enabled, "audit-"+of+"-truncate-enabled", false, "remove request and response from audit events that are too large, and drop those that are too large even then")
	f.IntVar(event, "audit-"+of+"-truncate-max-event-size", 0, "maximum size of an audit event in bytes of JSON (default 102400)")
	f.IntVar(batch, "audit-"+of+"-truncate-max-batch-size", 0, "maximum size of a batch of audit events in bytes (default 10485760)")
}
