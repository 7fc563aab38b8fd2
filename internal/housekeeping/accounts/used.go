package accounts

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// LabelUse returns a function that writes the date of the last use of a token into the label
// kubernetes.io/legacy-token-last-used of its secret. A controller deletes tokens without use.
func LabelUse(store *resource.Store, log *slog.Logger) func(ctx context.Context, secret object.Key, uid, date string) error {
	return func(ctx context.Context, secret object.Key, uid, date string) error {
		r, err := request(store, secrets, secret.Namespace, secret.Name, tracker)
		if err != nil {
			return err
		}
		data, err := json.Marshal(resource.Tree{"metadata": resource.Tree{
			"uid": uid, "labels": resource.Tree{"kubernetes.io/legacy-token-last-used": date},
		}})
		if err != nil {
			return err
		}
		_, err = store.Patch(ctx, r, resource.Patch{Type: types.MergePatchType, Data: data})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // the secret has gone
		}
		if err != nil {
			log.Warn("cannot label a secret with the last use of its token", "namespace", secret.Namespace, "secret", secret.Name, "err", err)
		}
		return err
	}
}
