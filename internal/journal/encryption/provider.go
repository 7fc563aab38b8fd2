package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2"
)

// A provider is a KMS provider of the file. It encrypts objects with keys that are derived from a
// random seed, and each object is stored with the seed, which a plugin has encrypted. To encrypt an
// object, the plugin is not called; to decrypt one, it is called for a seed that has not been seen
// before.
//
// From start to close, a provider owns a goroutine, which checks the plugin at intervals.
type provider struct {
	config  *apiserver.KMSConfiguration
	log     *slog.Logger
	plugin  bounded
	cipher  value.Transformer
	state   atomic.Pointer[kmsv2.State] // the seed in use; nil until the plugin has encrypted one
	verdict atomic.Pointer[verdict]     // of the last check; nil before the first one
	rotated func()                      // is called when the plugin encrypts with another key than before
	closing atomic.Bool
	polling func() // ends the goroutine, and waits for it; nil before start

	checking chan struct{} // has an element during a check
	version  string        // of the KMS API that the plugin has; owned by the check
}

// A verdict is the result of a check of the plugin.
type verdict struct {
	at  time.Time
	err error
}

// newProvider returns a provider that is not connected with its plugin.
func newProvider(config *apiserver.KMSConfiguration, log *slog.Logger, rotated func()) *provider {
	p := &provider{
		config:  config,
		log:     log.With("provider", config.Name, "endpoint", config.Endpoint),
		plugin:  bounded{timeout: config.Timeout.Duration},
		rotated: rotated,

		checking: make(chan struct{}, 1),
	}
	p.cipher = kmsv2.NewEnvelopeTransformer(&p.plugin, config.Name, p.seed, "")
	return p
}

// is reports whether the provider has this configuration.
func (p *provider) is(config *apiserver.KMSConfiguration) bool {
	return p.config.Name == config.Name && p.config.Endpoint == config.Endpoint && p.config.Timeout.Duration == config.Timeout.Duration
}

// connect connects the provider with its plugin, until close.
func (p *provider) connect(dial dialer) error {
	c, err := dial(p.config.Endpoint, p.config.Name)
	if err != nil {
		return err
	}
	p.plugin.plugin = c
	return nil
}

// start checks the plugin at intervals, until close.
func (p *provider) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.poll(ctx) })
	p.polling = func() {
		cancel()
		running.Wait()
	}
}

// close ends what connect and start have started, and running calls of the plugin.
func (p *provider) close() {
	p.closing.Store(true)
	if p.plugin.plugin != nil {
		_ = p.plugin.Close() // fails only if it is closed
	}
	if p.polling != nil {
		p.polling()
	}
}

// lock returns the lock of the provider's seeds.
func (p *provider) lock() lock {
	return lock{header: reserved + kms + ":" + kmsVersion + ":" + p.config.Name + ":", cipher: p.cipher, bound: true, provider: p}
}

// seed returns the seed in use. Without one, objects cannot be decrypted either, as in
// kube-apiserver: whether they are stale is unknown.
func (p *provider) seed() (kmsv2.State, error) {
	if s := p.state.Load(); s != nil {
		return *s, nil
	}
	return kmsv2.State{}, fmt.Errorf("the plugin has not encrypted a seed yet: %w", p.trouble())
}

// late returns a cipher that encrypts with the seed in use also after its end; nil without a seed.
func (p *provider) late() value.Transformer {
	s, err := p.seed()
	if err != nil {
		return nil
	}
	s.ExpirationTimestamp = time.Now().Add(time.Hour)
	return kmsv2.NewEnvelopeTransformer(&p.plugin, p.config.Name, func() (kmsv2.State, error) { return s, nil }, "")
}

// ready returns an error if objects cannot be encrypted now.
func (p *provider) ready() error {
	s, err := p.seed()
	if err == nil && s.ValidateEncryptCapability() != nil {
		err = fmt.Errorf("the plugin has not been healthy for %s: %w", seedLasts, p.trouble())
	}
	if err != nil {
		return fmt.Errorf("KMS provider %q: %w", p.config.Name, err)
	}
	return nil
}

// trouble returns the reason why the plugin is not healthy.
func (p *provider) trouble() error {
	if v := p.verdict.Load(); v != nil && v.err != nil {
		return v.err
	}
	return errors.New("it has not been checked")
}
