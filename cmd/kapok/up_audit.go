package main

import (
	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// auditFlags are named as those of kube-apiserver.
func auditFlags(f *pflag.FlagSet, o *kapok.AuditOptions) {
	f.StringVar(&o.PolicyFile, "audit-policy-file", "", "file with an audit Policy: which requests are written down, and how much of them")
	f.StringVar(&o.LogPath, "audit-log-path", "", "file for what the audit writes down, a line of JSON for each event; - is the standard output")
	f.IntVar(&o.LogMaxSize, "audit-log-maxsize", 0, "size in MiB at which that file is rotated (default 100)")
	f.IntVar(&o.LogMaxBackups, "audit-log-maxbackup", 0, "how many rotated files are kept (default all)")
	f.IntVar(&o.LogMaxAge, "audit-log-maxage", 0, "for how many days rotated files are kept (default for ever)")
	f.BoolVar(&o.LogCompress, "audit-log-compress", false, "compress rotated files with gzip")
	f.StringVar(&o.Webhook, "audit-webhook-config-file", "", "kubeconfig that says where batches of audit events are sent")
	f.DurationVar(&o.WebhookInitialBackoff, "audit-webhook-initial-backoff", 0, "how long to wait after the first batch that could not be sent (default 10s)")
	f.IntVar(&o.WebhookBatchMaxSize, "audit-webhook-batch-max-size", 0, "how many events a batch holds at most (default 400)")
	f.DurationVar(&o.WebhookBatchMaxWait, "audit-webhook-batch-max-wait", 0, "how long a batch waits for more events (default 30s)")
}
