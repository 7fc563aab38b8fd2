package endpoint

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// decodeParameters decodes query parameters into an options object.
func decodeParameters(query url.Values, into runtime.Object) error {
	if err := internalscheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return causes.Invalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

func (c *call) createOptions() (*metav1.CreateOptions, error) {
	options := &metav1.CreateOptions{}
	if c.r.URL.RawQuery == "" {
		return options, nil
	}
	if err := decodeParameters(c.r.URL.Query(), options); err != nil {
		return nil, err
	}
	return options, invalidOptions("CreateOptions", validation.ValidateCreateOptions(options))
}

func (c *call) updateOptions() (*metav1.UpdateOptions, error) {
	options := &metav1.UpdateOptions{}
	if c.r.URL.RawQuery == "" {
		return options, nil
	}
	if err := decodeParameters(c.r.URL.Query(), options); err != nil {
		return nil, err
	}
	return options, invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(options))
}

func (c *call) patchOptions(patchType types.PatchType) (*metav1.PatchOptions, error) {
	options := &metav1.PatchOptions{}
	if c.r.URL.RawQuery != "" {
		if err := decodeParameters(c.r.URL.Query(), options); err != nil {
			return nil, err
		}
	}
	return options, invalidOptions("PatchOptions", validation.ValidatePatchOptions(options, patchType))
}

func (c *call) getOptions() (*metav1.GetOptions, error) {
	options := &metav1.GetOptions{}
	if c.r.URL.RawQuery == "" {
		return options, nil
	}
	query := c.r.URL.Query()
	if values := query["export"]; isTrue(values) {
		return nil, apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	return options, decodeParameters(query, options)
}

// deleteOptions returns the options of a deletion: from the body, or from the query if there is no
// body.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	data, err := c.readBody()
	if err != nil {
		return nil, err
	}
	if len(data) > 0 {
		if err := c.decodeDeleteOptions(data, options); err != nil {
			return nil, err
		}
		c.auditOptions(options)
	} else if c.r.URL.RawQuery != "" {
		if err := decodeParameters(c.r.URL.Query(), options); err != nil {
			return nil, err
		}
	}
	if c.h.opts.IgnoreUnsafeDelete {
		options.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	}
	return options, invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(options))
}

// listOptions returns the options of list, watch and deletecollection. A name, in the path or in
// the field selector, selects by metadata.name.
func (c *call) listOptions() (*internalversion.ListOptions, error) {
	options := &internalversion.ListOptions{}
	if c.r.URL.RawQuery != "" {
		if err := decodeParameters(c.r.URL.Query(), options); err != nil {
			return nil, err
		}
		internalversion.SetListOptionsDefaults(options, true)
		if err := invalidOptions("ListOptions", internalvalidation.ValidateListOptions(options, true)); err != nil {
			return nil, err
		}
	}
	if c.info.Name == "" || c.info.Verb == "deletecollection" {
		return options, nil
	}
	if options.FieldSelector == nil || options.FieldSelector.Empty() {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", c.info.Name)
		return options, nil
	}
	if name, ok := options.FieldSelector.RequiresExactMatch("metadata.name"); !ok || name != c.info.Name {
		return nil, apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
	}
	return options, nil
}

// tableOptions returns the options of a Table.
func (c *call) tableOptions() (*metav1.TableOptions, error) {
	options := &metav1.TableOptions{}
	if c.r.URL.RawQuery == "" {
		return options, nil
	}
	if err := decodeParameters(c.r.URL.Query(), options); err != nil {
		return nil, err
	}
	switch errs := validation.ValidateTableOptions(options); len(errs) {
	case 0:
		return options, nil
	case 1:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: %v", errs[0].Error()))
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: %v", errs))
	}
}

// leaseHeader is the header with a Lease, in the form NAMESPACE/NAME/UID. A write with it commits
// only while this Lease exists; otherwise the response is 409 Conflict. The header is Kapok's own:
// it lets a program whose Lease has been deleted do no harm with requests that were sent before
// (see package manager/shards). Other servers, and requests that write nothing, ignore it.
const leaseHeader = "Kapok-Lease"

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// readLease reads leaseHeader.
func (c *call) readLease() error {
	text := c.r.Header.Get(leaseHeader)
	if text == "" {
		return nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return apierrors.NewBadRequest(fmt.Sprintf("header %s: %q must have the form NAMESPACE/NAME/UID of a Lease", leaseHeader, text))
	}
	c.while = resource.Holding{Key: object.Key{Resource: leases, Namespace: parts[0], Name: parts[1]}, UID: types.UID(parts[2])}
	return nil
}

// manager returns the field manager: the one in the request, or the start of the user agent.
func (c *call) manager(asked string) string {
	if asked != "" {
		return asked
	}
	agent, _, _ := strings.Cut(c.r.UserAgent(), "/")
	var name strings.Builder
	for _, r := range agent {
		if !unicode.IsPrint(r) {
			continue
		}
		if name.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		name.WriteRune(r)
	}
	return name.String()
}
