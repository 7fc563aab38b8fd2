package serviceaccount

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
)

// lastUsed is the label of a secret with the date, in UTC, on which its token was used last.
const lastUsed = "kubernetes.io/legacy-token-last-used"

// usedRetry is the minimum time between an error of OnUse and the next call.
const usedRetry = time.Minute

// OnUse sets the function that writes the date of the last use into a secret, before the Issuer
// authenticates. It is called at most once a day for a secret, and not within a minute of an error.
// It must not change a secret with another uid.
func (i *Issuer) OnUse(write func(ctx context.Context, secret object.Key, uid, date string) error) {
	i.write = write
}

// noteUse has the use of a token in a secret recorded.
func (i *Issuer) noteUse(ctx context.Context, secret *object.Object) {
	now := time.Now().UTC()
	date := secret.Meta.Labels.Get(lastUsed)
	// Another server may be in tomorrow already.
	if i.write == nil || date == now.Format(time.DateOnly) || date == now.AddDate(0, 0, 1).Format(time.DateOnly) || now.UnixNano() < i.writeAfter.Load() {
		return
	}
	// The use does not end with the request.
	err := i.write(context.WithoutCancel(ctx), secret.Key, string(secret.Meta.UID), now.Format(time.DateOnly))
	if err != nil {
		i.writeAfter.Store(now.Add(usedRetry).UnixNano())
	}
}
