package kapok

import (
	"errors"
	"log/slog"
	"time"

	"github.com/kapok-dev/kapok/internal/audit"
)

// AuditOptions say what is written down of requests, and where, as the flags --audit-* of kube-apiserver do. With zero values
// nothing is. See docs/audit.md.
type AuditOptions struct {
	// PolicyFile is a file with a Policy of audit.k8s.io/v1: which requests, and how much of them. It is read again when it
	// changes. Needs LogPath or Webhook.
	PolicyFile string

	// LogPath is the file that gets a line of JSON for each event; - is the standard output.
	LogPath string
	// LogMaxSize is the size, in MiB, at which the file is rotated. Default 100.
	LogMaxSize int
	// LogMaxBackups is how many rotated files are kept, LogMaxAge for how many days. Default: all, for ever.
	LogMaxBackups, LogMaxAge int
	// LogCompress compresses rotated files with gzip.
	LogCompress bool

	// Webhook is a kubeconfig that says where batches of events are sent.
	Webhook string
	// WebhookInitialBackoff is how long to wait after the first attempt that fails. Default 10 s.
	WebhookInitialBackoff time.Duration
	// WebhookBatchMaxSize is how many events a batch holds, WebhookBatchMaxWait how long one waits for more. Default 400 and 30 s.
	WebhookBatchMaxSize int
	WebhookBatchMaxWait time.Duration
}

func (o *AuditOptions) check() error {
	if *o == (AuditOptions{}) {
		return nil
	}
	switch {
	case o.LogPath == "" && o.Webhook == "":
		return errors.New("an audit policy is of no use without a place for events: name a log file or a webhook")
	case o.PolicyFile == "":
		return errors.New("what is to be written down by the audit? Name the file with its policy")
	}
	return nil
}

// start returns nil if there is nothing to do.
func (o *AuditOptions) start(log *slog.Logger) (*audit.Auditor, error) {
	if o.PolicyFile == "" {
		return nil, nil
	}
	options := audit.Options{PolicyFile: o.PolicyFile, Logger: log}
	if o.LogPath != "" {
		options.Log = &audit.FileOptions{
			Path: o.LogPath, MaxSize: o.LogMaxSize, MaxBackups: o.LogMaxBackups, MaxAge: o.LogMaxAge, Compress: o.LogCompress,
		}
	}
	if o.Webhook != "" {
		options.Webhook = &audit.WebhookOptions{
			ConfigFile: o.Webhook, InitialBackoff: o.WebhookInitialBackoff,
			BatchMaxSize: o.WebhookBatchMaxSize, BatchMaxWait: o.WebhookBatchMaxWait,
		}
	}
	return audit.New(options)
}
