package client

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// An OperationResult is what CreateOrUpdate or CreateOrPatch did.
type OperationResult string

const (
	OperationResultNone              OperationResult = "unchanged"
	OperationResultCreated           OperationResult = "created"
	OperationResultUpdated           OperationResult = "updated"
	OperationResultUpdatedStatus     OperationResult = "updatedStatus"     // the object and its status
	OperationResultUpdatedStatusOnly OperationResult = "updatedStatusOnly" // its status alone
)

// A MutateFn changes the object that it closes over to what it shall be. It must not change its name and namespace.
type MutateFn func() error

// CreateOrUpdate makes an object what it shall be. It reads the object of the name of obj into obj, calls mutate, and creates it if it
// was not there, or updates it if mutate has changed it; status is not written by an update. A conflict is returned: the
// caller should try again, as a Reconciler does by its error.
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

// CreateOrPatch is CreateOrUpdate with a merge patch of what mutate has changed, which does not conflict. It writes status, too, by a patch
// of the subresource, if the object was there.
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

// createOr reads obj and mutates it. If it was not there, it is created; else the result is what it was before.
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
