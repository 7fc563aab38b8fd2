package encryption

import (
	"context"
	"fmt"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2"
	"k8s.io/apiserver/pkg/storage/value/encrypt/envelope/metrics"
	"k8s.io/kms/pkg/service"
)

// The intervals are those of kube-apiserver. Between a check that succeeds and the end of the seed,
// a plugin that fails is checked at least twelve times.
const (
	checkHealthyEvery   = time.Minute
	checkUnhealthyEvery = 10 * time.Second
	// seedLasts is how long a seed encrypts objects after the check that has confirmed it. A seed
	// decrypts objects without a limit.
	seedLasts = 3 * time.Minute
	// A verdict is returned again, without a check, for this long.
	healthyFor   = 20 * time.Second
	unhealthyFor = 3 * time.Second
)

const unhealthy = "KMS plugin is not healthy" // in the log

// poll checks the plugin at intervals until ctx is done.
func (p *provider) poll(ctx context.Context) {
	for {
		every := checkHealthyEvery
		if v := p.verdict.Load(); v == nil || v.err != nil {
			every = checkUnhealthyEvery
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return
		}
		_ = p.check(ctx)
	}
}

// check returns an error unless the plugin is healthy and the seed in use is encrypted with its
// current key. It replaces a seed that is encrypted with another key. The result may be that of a
// check a moment ago.
func (p *provider) check(ctx context.Context) error {
	select {
	case p.checking <- struct{}{}:
		defer func() { <-p.checking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	last := p.verdict.Load()
	if last.fresh() {
		return last.err
	}
	response, err := p.plugin.Status(ctx)
	if err == nil {
		err = p.examine(ctx, response)
	}
	if err != nil {
		err = fmt.Errorf("KMS plugin at %s: %w", p.config.Endpoint, err)
	}
	if ctx.Err() != nil || p.closing.Load() { // which may be why it has failed
		return err
	}
	p.verdict.Store(&verdict{time.Now(), err})
	switch {
	case last == nil: // the caller reports an error
	case err != nil && last.err == nil:
		p.log.Error(unhealthy, "error", err)
	case err == nil && last.err != nil:
		p.log.Info("KMS plugin is healthy again")
	}
	return err
}

// fresh reports whether a verdict is valid without another check.
func (v *verdict) fresh() bool {
	switch {
	case v == nil:
		return false
	case v.err != nil:
		return time.Since(v.at) < unhealthyFor
	}
	return time.Since(v.at) < healthyFor
}

// examine returns what is wrong with the status of a plugin. Like kube-apiserver, it follows a
// change of the key also if the plugin reports that it is not healthy.
func (p *provider) examine(ctx context.Context, s *service.StatusResponse) error {
	var errs []error
	if s.Healthz != "ok" {
		errs = append(errs, fmt.Errorf("it reports that it is not healthy: %q", s.Healthz))
	}
	switch {
	case s.Version != kmsv2.KMSAPIVersionv2 && s.Version != kmsv2.KMSAPIVersionv2beta1:
		errs = append(errs, fmt.Errorf("it reports version %q of the KMS API: must be v2 or v2beta1", s.Version))
	case p.version == "":
		p.version = s.Version
	case p.version != s.Version:
		errs = append(errs, fmt.Errorf("it reports version %q of the KMS API, and reported %q before", s.Version, p.version))
	}
	if code, err := kmsv2.ValidateKeyID(s.KeyID); err != nil {
		metrics.RecordInvalidKeyIDFromStatus(p.config.Name, string(code))
		errs = append(errs, fmt.Errorf("it reports an invalid key: %w", err))
	} else {
		metrics.RecordKeyIDFromStatus(p.config.Name, s.KeyID, "")
		errs = append(errs, p.follow(ctx, s.KeyID))
	}
	return utilerrors.NewAggregate(errs)
}

// follow lets the seed encrypt objects from now on for seedLasts if it is encrypted with the key,
// and otherwise replaces it by another one. If that fails, the seed stays in use until it ends.
func (p *provider) follow(ctx context.Context, key string) error {
	ends := time.Now().Add(seedLasts) // from before the call, since it is the limit
	before := p.state.Load()
	if before != nil && before.EncryptedObjectKeyID == key {
		s := *before
		s.ExpirationTimestamp = ends
		p.state.Store(&s)
		return nil
	}
	id := string(uuid.NewUUID())
	transformer, o, cacheKey, err := kmsv2.GenerateTransformer(ctx, id, &p.plugin, true)
	switch {
	case err != nil:
		return fmt.Errorf("encrypt a seed: %w", err)
	case o.KeyID != key:
		return fmt.Errorf("it reports key %s, but has encrypted with key %s", hash(key), hash(o.KeyID))
	}
	p.state.Store(&kmsv2.State{
		Transformer:                           transformer,
		EncryptedObjectKeyID:                  o.KeyID,
		EncryptedObjectEncryptedDEKSource:     o.EncryptedDEKSource,
		EncryptedObjectAnnotations:            o.Annotations,
		EncryptedObjectEncryptedDEKSourceType: o.EncryptedDEKSourceType,
		UID:                                   id,
		ExpirationTimestamp:                   ends,
		CacheKey:                              cacheKey,
		KMSProviderName:                       p.config.Name,
	})
	if before != nil {
		p.rotated()
		p.log.Info("KMS plugin encrypts with another key", "key", hash(key), "previous", hash(before.EncryptedObjectKeyID))
	}
	return nil
}

// hash returns the form of a key's ID in logs and metrics.
func hash(key string) string { return kmsv2.GetHashIfNotEmpty(key) }
