package endpoint

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"strconv"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// list serves list.
func (c *call) list() error {
	m, err := negotiate(c.r, c.objectMedia())
	if err != nil {
		return err
	}
	options, err := c.listOptions()
	if err != nil {
		return err
	}
	ctx, cancel := c.context(requestTimeout)
	defer cancel()
	found, err := c.h.store.List(ctx, c.request(), resource.ListOptions{
		Labels:               options.LabelSelector,
		Fields:               options.FieldSelector,
		Limit:                options.Limit,
		Continue:             options.Continue,
		ResourceVersion:      options.ResourceVersion,
		ResourceVersionMatch: options.ResourceVersionMatch,
	})
	if err != nil {
		return err
	}
	c.answerList(m, found)
	return nil
}

// yieldEvery is after how many objects of a list somebody else may have the processor.
const yieldEvery = 32

// yield lets others go on before the next object of a list. Go lets a goroutine run for 10 ms where it does not wait, and that
// is how long small requests would wait beside long lists.
func yield(i int) {
	if i%yieldEvery == yieldEvery-1 {
		runtime.Gosched()
	}
}

// answerList answers with a list of objects, one behind the other.
func (c *call) answerList(m media, l resource.List) {
	c.auditAnswer(m, func(c *call, m media) { c.answerList(m, l) })
	switch m.as.Kind {
	case "PartialObjectMetadata":
		c.fail(notAcceptable(fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (%s)", c.goType(c.definition.ListKind))))
		return
	case "Table":
		c.answerTable(m, l)
		return
	}
	if m.encoding == asProtobuf {
		c.answerListProtobuf(m, l)
		return
	}
	apiVersion, kind := c.definition.APIVersion(c.version), c.definition.ListKind
	if m.as.Kind != "" {
		apiVersion, kind = metav1.GroupName+"/"+m.as.Version, m.as.Kind
	}
	custom := c.definition.Custom && m.as.Kind == ""

	out := c.output(http.StatusOK, m)
	if custom {
		out.buf = append(out.buf, `{"apiVersion":`...)
		out.buf = object.AppendString(out.buf, apiVersion)
		out.buf = append(out.buf, `,"items":[`...)
	} else {
		out.buf = appendTypeMeta(out.buf, kind, apiVersion)
		out.buf = append(out.buf, `,"metadata":`...)
		out.buf = appendListMetaJSON(out.buf, l, false)
		out.buf = append(out.buf, `,"items":[`...)
	}
	for i, o := range l.Objects {
		yield(i)
		if i > 0 {
			out.buf = append(out.buf, ',')
		}
		var err error
		if m.as.Kind == "" && !custom {
			out.buf, err = c.appendBareItem(out.buf, o)
		} else {
			out.buf, err = c.appendObject(out.buf, m, o, o.Revision)
		}
		if err != nil {
			out.drop(err)
			return
		}
		out.spill()
	}
	out.buf = append(out.buf, ']')
	if custom {
		out.buf = append(out.buf, `,"kind":`...)
		out.buf = object.AppendString(out.buf, kind)
		out.buf = append(out.buf, `,"metadata":`...)
		out.buf = appendListMetaJSON(out.buf, l, true)
	}
	out.buf = append(out.buf, '}')
	out.end()
}

// appendTypeMeta opens an object in the order in which Kubernetes' Go types have
// their fields.
func appendTypeMeta(dst []byte, kind, apiVersion string) []byte {
	dst = append(dst, `{"kind":`...)
	dst = object.AppendString(dst, kind)
	dst = append(dst, `,"apiVersion":`...)
	return object.AppendString(dst, apiVersion)
}

// appendListMetaJSON appends the metadata of a list. Lists of custom resources
// have a continue that is empty, others have none.
func appendListMetaJSON(dst []byte, l resource.List, custom bool) []byte {
	dst = append(dst, '{')
	if custom || l.Continue != "" {
		dst = append(dst, `"continue":`...)
		dst = object.AppendString(dst, l.Continue)
		dst = append(dst, ',')
	}
	if l.Remaining != nil {
		dst = append(dst, `"remainingItemCount":`...)
		dst = strconv.AppendInt(dst, *l.Remaining, 10)
		dst = append(dst, ',')
	}
	dst = append(dst, `"resourceVersion":"`...)
	dst = strconv.AppendInt(dst, int64(l.Revision), 10)
	return append(dst, `"}`...)
}

// appendBareItem appends an object without apiVersion and kind: in lists of
// built-in kinds only the list has them.
func (c *call) appendBareItem(dst []byte, o *object.Object) ([]byte, error) {
	form, err := resource.Form(c.definition, c.version, o, object.JSON)
	if err != nil {
		return dst, err
	}
	return appendBare(dst, form, o.Revision), nil
}

// appendBare appends a form without its apiVersion and kind. Keys are sorted, so
// that the metadata and with it the splice come behind both.
func appendBare(dst []byte, form object.Form, revision object.Revision) []byte {
	b := form.Bytes
	dst = append(dst, '{')
	kept := 1 // b[kept:at] is still to be appended
	at := 1
	for seen := 0; seen < 2 && at < len(b) && b[at] == '"'; {
		start := at
		at = skipString(b, at)
		key := b[start:at]
		at = skipValue(b, at+1) + 1 // over the colon, the value, the comma
		if bytes.Equal(key, []byte(`"apiVersion"`)) || bytes.Equal(key, []byte(`"kind"`)) {
			dst = append(dst, b[kept:start]...)
			kept = at
			seen++
		}
	}
	kept = min(kept, len(b))
	return appendForm(dst, object.Form{Bytes: b[kept:], Splice: form.Splice - kept}, revision)
}

// skipString returns the place behind the string that starts at b[at].
func skipString(b []byte, at int) int {
	for at++; at < len(b); at++ {
		i := bytes.IndexByte(b[at:], '"')
		if i < 0 {
			return len(b)
		}
		at += i
		slashes := 0
		for b[at-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return at + 1
		}
	}
	return len(b)
}

// skipValue returns the place behind the value that starts at b[at], in JSON
// without spaces.
func skipValue(b []byte, at int) int {
	depth := 0
	for at < len(b) {
		switch b[at] {
		case '"':
			at = skipString(b, at)
		case '{', '[':
			depth++
			at++
			continue
		case '}', ']':
			if depth == 0 {
				return at
			}
			depth--
			at++
		case ',':
			if depth == 0 {
				return at
			}
			at++
			continue
		default:
			at++
			continue
		}
		if depth == 0 {
			return at
		}
	}
	return len(b)
}

func (c *call) answerListProtobuf(m media, l resource.List) {
	apiVersion, kind := c.definition.APIVersion(c.version), c.definition.ListKind
	if m.as.Kind != "" {
		apiVersion, kind = metav1.GroupName+"/"+m.as.Version, m.as.Kind
	}
	message := appendBytes(nil, 1, appendListMeta(nil, l.Revision.String(), l.Continue, l.Remaining))
	for i, o := range l.Objects {
		yield(i)
		form, err := resource.Form(c.definition, c.version, o, formMedia(asProtobuf, m.as.Kind != ""))
		if err != nil {
			c.fail(err)
			return
		}
		envelope, err := openEnvelope(form.Bytes)
		if err != nil {
			c.fail(err)
			return
		}
		message = appendBytes(message, 2, envelope.Raw)
	}
	out := c.output(http.StatusOK, m)
	out.buf = appendEnvelope(out.buf, apiVersion, kind, message)
	out.end()
}
