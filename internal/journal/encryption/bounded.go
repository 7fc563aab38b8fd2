package encryption

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/kms/pkg/service"
)

// A bounded plugin limits the time that callers wait: each call takes at most the timeout, and
// after a Decrypt without response, further ones fail at once for a while. Readers of a journal
// decrypt one object after the other, and would otherwise wait for each of them.
type bounded struct {
	plugin
	timeout time.Duration
	silent  atomic.Pointer[silence]
}

// A silence is a Decrypt call without response.
type silence struct {
	until time.Time
	err   error
}

// silenceLasts is how long further Decrypt calls fail.
const silenceLasts = checkUnhealthyEvery

// Status implements service.Service.
func (b *bounded) Status(ctx context.Context) (*service.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	return b.plugin.Status(ctx)
}

// Encrypt implements service.Service.
func (b *bounded) Encrypt(ctx context.Context, uid string, data []byte) (*service.EncryptResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	return b.plugin.Encrypt(ctx, uid, data)
}

// Decrypt implements service.Service.
func (b *bounded) Decrypt(ctx context.Context, uid string, r *service.DecryptRequest) ([]byte, error) {
	if s := b.silent.Load(); s != nil && time.Now().Before(s.until) {
		return nil, fmt.Errorf("not called again before %s: %w", s.until.Format(time.TimeOnly), s.err)
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	data, err := b.plugin.Decrypt(ctx, uid, r)
	if err != nil && unanswered(err) {
		b.silent.Store(&silence{time.Now().Add(silenceLasts), err})
	}
	return data, err
}

// unanswered reports whether an error is not the plugin's own, but due to its silence or absence.
func unanswered(err error) bool {
	code := status.Code(err)
	return code == codes.DeadlineExceeded || code == codes.Unavailable || errors.Is(err, context.DeadlineExceeded)
}
