package endpoint

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

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

// decodeParameters reads query parameters into an options object.
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
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
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

// deleteOptions reads the options of a deletion from the body, or where there is
// none from the query.
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
	options.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	return options, invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(options))
}

// decodeDeleteOptions reads DeleteOptions of any group, as clients of old send
// them.
func (c *call) decodeDeleteOptions(data []byte, options *metav1.DeleteOptions) error {
	contentType := contentTypeJSON
	if e, err := bodyEncoding(c.r); err != nil {
		return err
	} else {
		contentType = mediaTypes[e]
	}
	codecs := internalscheme.Codecs
	serializer, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), contentType)
	if !ok {
		return unsupportedMediaType(mediaTypes[:])
	}
	kind := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
	decoded, _, err := codecs.DecoderToVersion(serializer.Serializer, kind.GroupVersion()).Decode(data, &kind, options)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if decoded != options {
		return apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
	}
	return nil
}

// listOptions reads the options of list, watch and deletecollection. A name, in
// the path or in the field selector, selects like metadata.name.
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

// tableOptions reads the options of a Table.
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

// manager is the name under which the client manages fields: what it says, or
// the beginning of its user agent.
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
