package endpoint

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// request returns the request for the Store. Callers add the options of writes.
func (c *call) request() *resource.Request {
	r := &resource.Request{
		Definition:      c.definition,
		Version:         c.version,
		Name:            c.info.Name,
		Subresource:     c.info.Subresource,
		User:            c.user,
		FieldValidation: metav1.FieldValidationWarn,
		Warn:            c.warn,
	}
	if c.definition.Namespaced {
		r.Namespace = c.info.Namespace
	}
	return r
}

// addHooked adds time for which webhooks have been called.
func (c *call) addHooked(took time.Duration) { c.hooked += took }

// writing returns the request for the Store with the options of writes.
func (c *call) writing(options runtime.Object, manager, fieldValidation string, dryRun []string) *resource.Request {
	r := c.request()
	r.Options = options
	r.Manager = c.manager(manager)
	if fieldValidation != "" {
		r.FieldValidation = fieldValidation
	}
	r.DryRun = len(dryRun) > 0
	r.While = c.while
	r.Hooked = c.addHooked
	r.Exact = true
	c.dryRun = r.DryRun
	if c.record != nil {
		r.Annotate, r.Decoded = c.record.Annotate, c.record.RequestObject
	}
	return r
}

func nameRequired() error { return apierrors.NewBadRequest("name must be provided") }

func (c *call) get() error {
	if c.info.Name == "" {
		return nameRequired()
	}
	m, err := negotiate(c.r, c.objectMedia())
	if err != nil {
		return err
	}
	options, err := c.getOptions()
	if err != nil {
		return err
	}
	ctx := c.r.Context()
	if options.ResourceVersion != "" { // the Store may have to wait for it
		bounded, cancel := c.context(c.h.requests.Timeout)
		defer cancel()
		ctx = bounded
	}
	result, err := c.h.store.Get(ctx, c.request(), options.ResourceVersion)
	if err != nil {
		return err
	}
	c.answerResult(http.StatusOK, m, result)
	return nil
}

func (c *call) create() error {
	m, err := negotiate(c.r, c.objectMedia())
	if err != nil {
		return err
	}
	e, err := bodyEncoding(c.r)
	if err != nil {
		return err
	}
	data, err := c.readBody()
	if err != nil {
		return err
	}
	options, err := c.createOptions()
	if err != nil {
		return err
	}
	request := c.writing(options, options.FieldManager, options.FieldValidation, options.DryRun)
	if request.Subresource == "" {
		request.Name = "" // the name is in the body
	}
	body, err := c.body(e, data, request.FieldValidation)
	if err != nil {
		return err
	}
	ctx, cancel := c.context(c.h.requests.writeTimeout())
	defer cancel()
	result, err := c.h.store.Create(ctx, request, body)
	if err != nil {
		return err
	}
	c.answerResult(http.StatusCreated, m, result)
	return nil
}

func (c *call) update() error {
	if c.info.Name == "" {
		return nameRequired()
	}
	m, err := negotiate(c.r, c.objectMedia())
	if err != nil {
		return err
	}
	data, err := c.readBody()
	if err != nil {
		return err
	}
	options, err := c.updateOptions()
	if err != nil {
		return err
	}
	e, err := bodyEncoding(c.r)
	if err != nil {
		return err
	}
	request := c.writing(options, options.FieldManager, options.FieldValidation, options.DryRun)
	body, err := c.body(e, data, request.FieldValidation)
	if err != nil {
		return err
	}
	ctx, cancel := c.context(c.h.requests.writeTimeout())
	defer cancel()
	result, err := c.h.store.Update(ctx, request, body)
	if err != nil {
		return err
	}
	c.answerResult(created(result), m, result)
	return nil
}

// patchTypes returns the types of patches that a kind supports.
func (c *call) patchTypes() []string {
	known := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if !c.definition.Custom {
		known = append(known, string(types.StrategicMergePatchType))
	}
	return append(known, string(types.ApplyYAMLPatchType))
}

func (c *call) patch() error {
	contentType, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	if known := c.patchTypes(); !slices.Contains(known, contentType) {
		return unsupportedMediaType(known)
	}
	if c.info.Name == "" {
		return nameRequired()
	}
	m, err := negotiate(c.r, c.objectMedia())
	if err != nil {
		return err
	}
	data, err := c.readBody()
	if err != nil {
		return err
	}
	patch := resource.Patch{Type: types.PatchType(contentType), Data: data, Copies: c.weighCopies}
	options, err := c.patchOptions(patch.Type)
	if err != nil {
		return err
	}
	if err := checkPatch(patch); err != nil {
		return err
	}
	c.record.RequestPatch(data)
	patch.Force = options.Force != nil && *options.Force
	ctx, cancel := c.context(c.h.requests.writeTimeout())
	defer cancel()
	result, err := c.h.store.Patch(ctx, c.writing(options, options.FieldManager, options.FieldValidation, options.DryRun), patch)
	if err != nil {
		return err
	}
	c.answerResult(created(result), m, result)
	return nil
}

func (c *call) delete() error {
	m, err := negotiate(c.r, c.objectMedia())
	if err != nil {
		return err
	}
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	if unsafeDelete(options) {
		return c.deleteUnsafely()
	}
	ctx, cancel := c.context(c.h.requests.writeTimeout())
	defer cancel()
	result, err := c.h.store.Delete(ctx, c.writing(options, "", "", options.DryRun), options)
	if err != nil {
		return err
	}
	code := http.StatusOK
	if result.Pending && options.OrphanDependents != nil && !*options.OrphanDependents {
		code = http.StatusAccepted
	}
	c.answerResult(code, m, result)
	return nil
}

func (c *call) deleteCollection() error {
	m, err := negotiate(c.r, c.objectMedia())
	if err != nil {
		return err
	}
	selected, err := c.listOptions()
	if err != nil {
		return err
	}
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	if unsafeDelete(options) {
		return errUnsafeCollection()
	}
	request := c.writing(options, "", "", options.DryRun)
	request.Name = ""
	deleted, err := c.h.store.DeleteCollection(c.r.Context(), request, options, resource.ListOptions{
		Labels:               selected.LabelSelector,
		Fields:               selected.FieldSelector,
		Limit:                selected.Limit,
		Continue:             selected.Continue,
		ResourceVersion:      selected.ResourceVersion,
		ResourceVersionMatch: selected.ResourceVersionMatch,
	})
	if err != nil {
		return err
	}
	c.answerList(m, deleted)
	return nil
}
