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

// answerResult answers a request about one object.
func (c *call) answerResult(code int, m media, result resource.Result) {
	c.auditAnswer(m, func(c *call, m media) { c.answerResult(code, m, result) })
	switch {
	case result.Status != nil:
		status := *result.Status
		status.Kind, status.APIVersion = "Status", "v1"
		c.record.ResponseStatus(&status)
		c.answerTyped(code, m, &status, "v1", "Status")
	case result.Tree != nil:
		c.answerTree(code, m, result.Tree)
	default:
		c.answerObject(code, m, result.Object)
	}
}

func (c *call) answerObject(code int, m media, o *object.Object) {
	var options *metav1.TableOptions
	switch m.as.Kind {
	case "PartialObjectMetadataList":
		c.fail(c.notAList())
		return
	case "Table":
		var err error
		if options, err = c.tableOptions(); err != nil {
			c.fail(err)
			return
		}
	}
	out := c.output(code, m)
	var err error
	if options != nil {
		t := c.table(m, options)
		out.buf, err = t.appendOne(out.buf, o, o.Revision)
	} else {
		out.buf, err = c.appendObject(out.buf, m, o, o.Revision)
	}
	if err != nil {
		out.drop(err)
		return
	}
	out.end()
}

// notAList is the error for a single object that is to be a list. Custom ones
// trip Kubernetes up before it finds words.
func (c *call) notAList() error {
	if c.definition.Custom {
		return errors.New("content is not a list")
	}
	return notAcceptable(fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (%s)", c.goType(c.definition.Kind)))
}

// goType is how Kubernetes names the Go type of a kind in messages.
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

// appendObject appends an object as a whole or its metadata alone, encoded with
// the given revision.
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

// appendForm appends a form with its revision, but for objects that were never
// stored (dry runs), which have none.
func appendForm(dst []byte, form object.Form, revision object.Revision) []byte {
	if revision == 0 {
		return append(dst, form.Bytes...)
	}
	return form.AppendTo(dst, revision)
}

// appendProtobuf appends a form in its envelope, which holds the revision of the
// object unless another one is wanted.
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

// partialV1 is how PartialObjectMetadata of v1 begins.
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

// answerTree answers with a Scale, which is not stored.
func (c *call) answerTree(code int, m media, tree resource.Tree) {
	out := c.output(code, m)
	var err error
	switch {
	case m.as.Kind == "Table":
		var options *metav1.TableOptions
		if options, err = c.tableOptions(); err == nil {
			out.buf, err = appendTreeTable(out.buf, m.as.Version, options, tree)
		}
	case m.as.Kind == "PartialObjectMetadataList":
		err = notAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list (*v1." + c.bodyKind() + ")")
	case m.as.Kind == "PartialObjectMetadata":
		out.buf, err = appendTreePartial(out.buf, m, tree)
	case m.encoding == asProtobuf:
		typed := c.bodyType()
		if err = runtime.DefaultUnstructuredConverter.FromUnstructured(tree, typed); err == nil {
			apiVersion, kind := c.request().BodyKind().ToAPIVersionAndKind()
			out.buf, err = appendTyped(out.buf, asProtobuf, typed, apiVersion, kind)
		}
	default:
		out.buf, err = object.AppendJSON(out.buf, tree)
	}
	if err != nil {
		out.drop(err)
		return
	}
	out.end()
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

// created is the status code of a write.
func created(result resource.Result) int {
	if result.Created {
		return http.StatusCreated
	}
	return http.StatusOK
}
