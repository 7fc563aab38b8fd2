package client

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// An OperationResult is the action of CreateOrUpdate or CreateOrPatch.
type OperationResult string

// The results of CreateOrUpdate and CreateOrPatch.
const (
	OperationResultNone              OperationResult = "unchanged"
	OperationResultCreated           OperationResult = "created"
	OperationResultUpdated           OperationResult = "updated"
	OperationResultUpdatedStatus     OperationResult = "updatedStatus"     // the object and its status were updated
	OperationResultUpdatedStatusOnly OperationResult = "updatedStatusOnly" // only its status was updated
)

// A MutateFn changes the object that it closes over to the desired state. It must not change its
// name and namespace.
type MutateFn func() error

// CreateOrUpdate brings an object to the desired state. It reads the object with the name of obj
// into obj, calls mutate, and creates the object if it does not exist, or updates it if mutate has
// changed it. An update does not write status. A conflict is returned as an error: the caller
// should retry, as a Reconciler does by returning it.
func CreateOrUpdate(ctx context.Context, c Client, obj Object, mutate MutateFn) (OperationResult, error) {
	before, created, err := createOr(ctx, c, obj, mutate)
	if err != nil {
		return OperationResultNone, err
	}
	if created {
		return OperationResultCreated, nil
	}
	if equality.Semantic.DeepEqual(before, obj) {
		return OperationResultNone, nil
	}
	if err := c.Update(ctx, obj); err != nil {
		return OperationResultNone, err
	}
	return OperationResultUpdated, nil
}

// CreateOrPatch is CreateOrUpdate that sends the changes of mutate as a merge patch, which does not
// conflict. If the object exists, it also writes status, by a patch of the subresource.
func CreateOrPatch(ctx context.Context, c Client, obj Object, mutate MutateFn) (OperationResult, error) {
	before, created, err := createOr(ctx, c, obj, mutate)
	if err != nil {
		return OperationResultNone, err
	}
	if created {
		return OperationResultCreated, nil
	}
	data, err := MergeFrom(before).Data(obj)
	if err != nil {
		return OperationResultNone, err
	}
	var change map[string]json.RawMessage
	if err := json.Unmarshal(data, &change); err != nil {
		return OperationResultNone, err
	}
	status, hasStatus := change["status"]
	delete(change, "status")

	result := OperationResultNone
	if len(change) > 0 {
		if data, err = json.Marshal(change); err != nil {
			return result, err
		}
		if err := c.Patch(ctx, obj, RawPatch(types.MergePatchType, data)); err != nil {
			return result, err
		}
		result = OperationResultUpdated
	}
	if !hasStatus {
		return result, nil
	}
	if data, err = json.Marshal(map[string]json.RawMessage{"status": status}); err != nil {
		return result, err
	}
	if err := c.Status().Patch(ctx, obj, RawPatch(types.MergePatchType, data)); err != nil {
		return result, err
	}
	if result == OperationResultUpdated {
		return OperationResultUpdatedStatus, nil
	}
	return OperationResultUpdatedStatusOnly, nil
}

// createOr reads obj and mutates it. It creates an object that does not exist; otherwise it returns
// the state before.
func createOr(ctx context.Context, c Client, obj Object, mutate MutateFn) (before Object, created bool, err error) {
	if isNil(obj) {
		return nil, false, fmt.Errorf("create or update: the object is nil (%T)", obj)
	}
	key := ObjectKeyFromObject(obj)
	err = c.Get(ctx, key, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, false, err
	}
	missing := err != nil
	if !missing {
		before = obj.DeepCopyObject().(Object)
	}
	if mutate != nil {
		if err := mutate(); err != nil {
			return nil, false, err
		}
	}
	if now := ObjectKeyFromObject(obj); now != key {
		return nil, false, fmt.Errorf("create or update %s: the MutateFn has renamed it to %s", key, now)
	}
	if missing {
		return nil, true, c.Create(ctx, obj)
	}
	return before, false, nil
}
