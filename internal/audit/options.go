package audit

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Options select which requests are recorded, and where events are sent. They have the names of
// kube-apiserver's flags --audit-*. With zero values nothing is recorded.
type Options struct {
	// PolicyFile is a file with a Policy of audit.k8s.io/v1: which requests are recorded, and at
	// which level. It is read again when it changes; an invalid one changes nothing. Required if
	// any other field is set.
	PolicyFile string

	// LogPath is the file that gets a line of JSON for each event; - is the standard output.
	// Default: none. LogPath or Webhook is required if PolicyFile is set.
	LogPath string
	// LogMaxSize is the size, in MiB, at which the file is rotated. Default 100.
	LogMaxSize int
	// LogMaxBackups is the number of rotated files to keep. Default: all.
	LogMaxBackups int
	// LogMaxAge is the number of days for which rotated files are kept. Default: forever.
	LogMaxAge int
	// LogCompress compresses rotated files with gzip.
	LogCompress bool
	// LogTruncateEnabled limits the size of the events in the file: an event that is larger than
	// LogTruncateMaxEventSize, in bytes of JSON, loses the objects of the request and the response,
	// and gets the annotation audit.k8s.io/truncated; one that is too large even then is dropped.
	LogTruncateEnabled bool
	// LogTruncateMaxEventSize is the maximum size of an event in bytes. Default 102400.
	LogTruncateMaxEventSize int
	// LogTruncateMaxBatchSize is the maximum size of the events that are written at once, in bytes, at
	// least that of one event. Default 10485760.
	LogTruncateMaxBatchSize int

	// Webhook is a kubeconfig: its current cluster is the webhook that batches of events are sent
	// to, its user the credentials. Default: none.
	Webhook string
	// WebhookInitialBackoff is the delay before the first retry of a batch; each later delay is 1.5
	// times as long. A batch is dropped after five attempts. Default 10 seconds.
	WebhookInitialBackoff time.Duration
	// WebhookBatchMaxSize is the maximum number of events in a batch. Default 400.
	WebhookBatchMaxSize int
	// WebhookBatchMaxWait is the maximum time that a batch waits for more events. Default 30 seconds.
	WebhookBatchMaxWait time.Duration
	// WebhookTruncateEnabled, WebhookTruncateMaxEventSize and WebhookTruncateMaxBatchSize are for the
	// webhook what LogTruncateEnabled and so on are for the file: a batch that is larger is split.
	WebhookTruncateEnabled      bool
	WebhookTruncateMaxEventSize int
	WebhookTruncateMaxBatchSize int
}

// Validate returns an error if a sink has no policy, a policy has no sink, or a bound of the log
// file is negative. It does not read files.
func (o *Options) Validate() error {
	switch {
	case *o == (Options{}):
		return nil
	case o.LogPath == "" && o.Webhook == "":
		return errors.New("Options.Audit has no destination for events: set LogPath or Webhook")
	case o.PolicyFile == "":
		return errors.New("Options.Audit.PolicyFile is not set: set it to a file with an audit policy")
	case o.LogMaxSize < 0 || o.LogMaxBackups < 0 || o.LogMaxAge < 0:
		return fmt.Errorf("Options.Audit.LogMaxSize is %d, LogMaxBackups is %d, LogMaxAge is %d: none of them can be negative", o.LogMaxSize, o.LogMaxBackups, o.LogMaxAge)
	}
	o = new(o.withDefaults())
	if err := o.logLimit().validate("Log"); err != nil {
		return err
	}
	return o.webhookLimit().validate("Webhook")
}

// logLimit returns the limit for the file. The options have defaults.
func (o *Options) logLimit() limit {
	if !o.LogTruncateEnabled {
		return limit{}
	}
	return limit{event: o.LogTruncateMaxEventSize, batch: o.LogTruncateMaxBatchSize}
}

// webhookLimit is logLimit for the webhook.
func (o *Options) webhookLimit() limit {
	if !o.WebhookTruncateEnabled {
		return limit{}
	}
	return limit{event: o.WebhookTruncateMaxEventSize, batch: o.WebhookTruncateMaxBatchSize}
}

// The sizes with which events are truncated by default, in bytes.
const (
	maxEventSize = 100 << 10
	maxBatchSize = 10 << 20
)

// withDefaults returns the options with the defaults filled in.
func (o Options) withDefaults() Options {
	o.LogMaxSize = cmp.Or(o.LogMaxSize, 100)
	o.LogTruncateMaxEventSize = cmp.Or(o.LogTruncateMaxEventSize, maxEventSize)
	o.LogTruncateMaxBatchSize = cmp.Or(o.LogTruncateMaxBatchSize, maxBatchSize)
	o.WebhookTruncateMaxEventSize = cmp.Or(o.WebhookTruncateMaxEventSize, maxEventSize)
	o.WebhookTruncateMaxBatchSize = cmp.Or(o.WebhookTruncateMaxBatchSize, maxBatchSize)
	o.WebhookInitialBackoff = cmp.Or(o.WebhookInitialBackoff, 10*time.Second)
	if o.WebhookBatchMaxSize <= 0 {
		o.WebhookBatchMaxSize = 400
	}
	if o.WebhookBatchMaxWait <= 0 {
		o.WebhookBatchMaxWait = 30 * time.Second
	}
	return o
}
