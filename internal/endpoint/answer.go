package endpoint

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// answerResult responds to a request for one object.
func (c *call) answerResult(code int, m media, result resource.Result) {
	if result.Status != nil {
		status := *result.Status
		status.Kind, status.APIVersion = "Status", "v1"
		result.Status = &status
		c.record.ResponseStatus(&status)
	}
	t := c.transcript(m)
	if t != nil {
		t.keep(c.renderResult(t, result))
	}
	out := c.answer(code, m)
	if t == nil && m.encoding == asProtobuf && m.as.Kind == "" && result.IsWritten(c.version) && !c.h.watchedInProtobuf(c.definition) {
		out.close(c.renderOnce(out, result))
		return
	}
	out.close(c.renderResult(out, result))
}

// renderOnce renders an object that was written, in protobuf. The object does not keep the bytes:
// there is no watch that needs them, and they would take half as much memory as the object.
func (c *call) renderOnce(out *output, result resource.Result) error {
	form, err := result.FormOnce(c.definition, c.version)
	if err != nil {
		return err
	}
	out.buf, err = c.appendProtobuf(out.buf, out.m, form, result.Object, result.Object.Revision)
	return err
}

func (c *call) renderResult(out *output, result resource.Result) error {
	switch {
	case result.Status != nil:
		return out.typed(result.Status, "v1", "Status")
	case result.Tree != nil:
		return c.renderTree(out, result.Tree)
	}
	if media := formMedia(out.m.encoding, out.m.as.Kind != ""); media == object.Protobuf {
		if _, err := result.Form(c.definition, c.version, media); err != nil { // which renderObject finds
			return err
		}
	}
	return c.renderObject(out, result.Object)
}

func (c *call) renderObject(out *output, o *object.Object) (err error) {
	switch out.m.as.Kind {
	case "PartialObjectMetadataList":
		return c.notAList()
	case "Table":
		options, err := c.tableOptions()
		if err != nil {
			return err
		}
		out.buf, err = c.table(out.m, options).appendOne(out.buf, o, o.Revision)
		return err
	}
	out.buf, err = c.appendObject(out.buf, out.m, o, o.Revision)
	return err
}

// notAList is the error for a single object that is requested as a list. For custom resources,
// Kubernetes fails before it has checked that, with another message.
func (c *call) notAList() error {
	if c.definition.Custom {
		return errors.New("content is not a list")
	}
	return notAcceptable(fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (%s)", c.goType(c.definition.Kind)))
}

// goType returns the name of the Go type of a kind in Kubernetes' messages.
func (c *call) goType(kind string) string {
	if c.definition.Custom {
		return "*unstructured.UnstructuredList"
	}
	pkg, _, _ := strings.Cut(c.definition.Group, ".")
	if pkg == "" {
		pkg = "core"
	}
	return "*" + pkg + "." + kind
}

// appendObject appends an object, or its metadata alone, with the given revision.
func (c *call) appendObject(dst []byte, m media, o *object.Object, revision object.Revision) ([]byte, error) {
	partial := m.as.Kind != ""
	form, err := resource.Form(c.definition, c.version, o, formMedia(m.encoding, partial))
	if err != nil {
		return dst, err
	}
	switch {
	case m.encoding == asProtobuf:
		return c.appendProtobuf(dst, m, form, o, revision)
	case partial:
		return appendPartial(dst, m.as.Version, form, revision), nil
	}
	return appendForm(dst, form, revision), nil
}

func formMedia(e encoding, partial bool) object.Media {
	switch {
	case e == asProtobuf && partial:
		return object.PartialProtobuf
	case e == asProtobuf:
		return object.Protobuf
	case partial:
		return object.PartialJSON
	}
	return object.JSON
}

// appendForm appends a form with its revision. Objects that were never stored (dry runs) have none.
func appendForm(dst []byte, form object.Form, revision object.Revision) []byte {
	if revision == 0 {
		return append(dst, form.Bytes...)
	}
	return form.AppendTo(dst, revision)
}

// appendProtobuf appends a form in its envelope. The form includes the revision of the object;
// another revision is added.
func (c *call) appendProtobuf(dst []byte, m media, form object.Form, o *object.Object, revision object.Revision) ([]byte, error) {
	if m.as.Version == "v1beta1" {
		envelope, err := openEnvelope(form.Bytes)
		if err != nil {
			return dst, err
		}
		form.Bytes = appendEnvelope(nil, metav1.GroupName+"/v1beta1", envelope.Kind, envelope.Raw)
	}
	if revision != o.Revision {
		return appendRevised(dst, form.Bytes, revision)
	}
	return append(dst, form.Bytes...), nil
}

// partialV1 is the start of a PartialObjectMetadata of v1.
const partialV1 = `{"apiVersion":"meta.k8s.io/v1"`

// appendPartial appends PartialObjectMetadata in either of its versions.
func appendPartial(dst []byte, version string, form object.Form, revision object.Revision) []byte {
	if version == "v1beta1" && bytes.HasPrefix(form.Bytes, []byte(partialV1)) {
		dst = append(dst, `{"apiVersion":"meta.k8s.io/v1beta1"`...)
		form.Bytes = form.Bytes[len(partialV1):]
		form.Splice -= len(partialV1)
	}
	return appendForm(dst, form, revision)
}

// renderTree renders a Scale, which is not stored.
func (c *call) renderTree(out *output, tree resource.Tree) (err error) {
	switch m := out.m; {
	case m.as.Kind == "Table":
		options, err := c.tableOptions()
		if err != nil {
			return err
		}
		out.buf, err = appendTreeTable(out.buf, m.as.Version, options, tree)
		return err
	case m.as.Kind == "PartialObjectMetadataList":
		return notAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list (*v1." + c.request().BodyKind().Kind + ")")
	case m.as.Kind == "PartialObjectMetadata":
		out.buf, err = appendTreePartial(out.buf, m, tree)
	case m.encoding == asProtobuf:
		typed := c.bodyType()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, typed); err != nil {
			return err
		}
		apiVersion, kind := c.request().BodyKind().ToAPIVersionAndKind()
		return out.typed(typed, apiVersion, kind)
	default:
		out.buf, err = object.AppendJSON(out.buf, tree)
	}
	return err
}

func appendTreePartial(dst []byte, m media, tree resource.Tree) ([]byte, error) {
	partial := &metav1.PartialObjectMetadata{}
	metadata := map[string]any{"metadata": tree["metadata"]}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(metadata, partial); err != nil {
		return dst, err
	}
	apiVersion := metav1.GroupName + "/" + m.as.Version
	partial.APIVersion, partial.Kind = apiVersion, "PartialObjectMetadata"
	return appendTyped(dst, m.encoding, partial, apiVersion, "PartialObjectMetadata")
}

// created returns the status code of a write.
func created(result resource.Result) int {
	if result.Created {
		return http.StatusCreated
	}
	return http.StatusOK
}
