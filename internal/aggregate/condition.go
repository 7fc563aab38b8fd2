package aggregate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// localCondition returns the condition of an APIService that this server serves itself.
func localCondition() *apiregistrationv1.APIServiceCondition {
	return &apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, Reason: "Local", Message: "Local APIServices are always available",
	}
}

var errAnother = errors.New("the APIService has been replaced")

// writeCondition stores a condition of an APIService, unless it is stored already. It does nothing
// for an APIService with another uid.
func writeCondition(ctx context.Context, store *resource.Store, name string, uid types.UID, now *apiregistrationv1.APIServiceCondition) error {
	d := store.Registry().Load().Resource(Resource)
	if d == nil {
		return fmt.Errorf("%s is not served", Resource)
	}
	request := &resource.Request{
		Definition: d, Version: d.Storage, Name: name, Subresource: "status",
		Manager: manager, FieldValidation: metav1.FieldValidationIgnore, Warn: func(string) {},
	}
	_, err := store.Edit(ctx, request, func(live resource.Tree) error {
		var current apiregistrationv1.APIService
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live, &current); err != nil {
			return err
		}
		if current.UID != uid {
			return errAnother
		}
		set(&current.Status, *now)
		status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&current.Status)
		live["status"] = status
		return err
	})
	if errors.Is(err, errAnother) || apierrors.IsNotFound(err) {
		return nil // the change follows as an event
	}
	return err
}

// set adds or replaces a condition, and sets its transition time if the status changed.
func set(status *apiregistrationv1.APIServiceStatus, now apiregistrationv1.APIServiceCondition) {
	i := slices.IndexFunc(status.Conditions, func(c apiregistrationv1.APIServiceCondition) bool { return c.Type == now.Type })
	if i < 0 {
		now.LastTransitionTime = metav1.Now()
		status.Conditions = append(status.Conditions, now)
		return
	}
	now.LastTransitionTime = status.Conditions[i].LastTransitionTime
	if status.Conditions[i].Status != now.Status {
		now.LastTransitionTime = metav1.Now()
	}
	status.Conditions[i] = now
}

// manager is the field manager of kube-apiserver's own controllers.
const manager = "kube-apiserver"
