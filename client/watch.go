package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unstructuredv1 "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Watch follows a kind until the server ends the watch, as it does every few minutes, or the
// caller, who must call Stop. It begins with an event for each object that is there, unless
// ListOptions.Raw has a resourceVersion. A selector that matches nothing is an error.
func (c *client) Watch(ctx context.Context, list ObjectList, opts ...ListOption) (watch.Interface, error) {
	gvk, err := c.listKind(list)
	if err != nil {
		return nil, err
	}
	item, err := c.itemType(list, itemKind(gvk, list))
	if err != nil {
		return nil, err
	}
	o := new(ListOptions).ApplyOptions(opts)
	s, err := c.watch(ctx, itemKind(gvk, list), item, o)
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(s, apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")), nil
}

// itemType returns a function that creates empty items of a list.
func (c *client) itemType(list ObjectList, gvk schema.GroupVersionKind) (func() runtime.Object, error) {
	switch formOf(list) {
	case metadata:
		return func() runtime.Object {
			item := &metav1.PartialObjectMetadata{}
			item.SetGroupVersionKind(gvk)
			return item
		}, nil
	case unstructured:
		return func() runtime.Object { return &unstructuredv1.Unstructured{} }, nil
	}
	sample, err := c.scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	item := reflect.TypeOf(sample).Elem()
	return func() runtime.Object { return reflect.New(item).Interface().(runtime.Object) }, nil
}

// watch begins a watch of objects that newItem makes.
func (c *client) watch(ctx context.Context, gvk schema.GroupVersionKind, newItem func() runtime.Object, o *ListOptions) (*watchStream, error) {
	if err := o.Err(); err != nil {
		return nil, err
	}
	r := c.all(ctx, http.MethodGet, gvk, o.Namespace)
	if o.selectsNothing() {
		return nil, r.fail(fmt.Errorf("watch: the selector matches nothing")).err
	}
	raw := o.AsListOptions()
	raw.Watch = true
	if r.params(raw); r.err != nil {
		return nil, r.err
	}
	body, err := r.rest.SetHeader("Accept", accept(newItem(), r.protobuf)).Stream(ctx)
	if err != nil {
		return nil, err
	}
	return &watchStream{body: body, gvk: gvk, newItem: newItem}, nil
}

// A watchStream reads the events of a watch. It is a watch.Decoder.
type watchStream struct {
	body    io.ReadCloser
	gvk     schema.GroupVersionKind
	newItem func() runtime.Object

	in     *bufio.Reader
	events *json.Decoder // nil if the stream is protobuf
	broken error         // what reading the body ended with, unless that was in order
	closed sync.Once
}

// Read reads the body.
func (s *watchStream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if err != nil && err != io.EOF {
		s.broken = err
	}
	return n, err
}

// maxEvent limits the memory that the length in a stream makes the client allocate. Servers do not
// store objects of a tenth of that size.
const maxEvent = 64 << 20

// Close also ends a waiting Decode.
func (s *watchStream) Close() { s.closed.Do(func() { _ = s.body.Close() }) }

// Decode returns the next event, and io.EOF after the last.
func (s *watchStream) Decode() (watch.EventType, runtime.Object, error) {
	event, contentType, err := s.next()
	if err != nil {
		if s.broken != nil {
			err = io.ErrUnexpectedEOF // which ends a watch without an event, unlike what cannot be decoded
		}
		return "", nil, err
	}
	var obj runtime.Object
	gvk := s.gvk
	switch watch.EventType(event.Type) {
	case watch.Error:
		obj, gvk = &metav1.Status{}, metav1.Unversioned.WithKind("Status")
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		obj = s.newItem()
	default:
		return "", nil, fmt.Errorf("watch %s: unknown event type %q", s.gvk.Kind, event.Type)
	}
	if err := decode(event.Object.Raw, contentType, obj, gvk); err != nil {
		return "", nil, fmt.Errorf("watch: %w", err)
	}
	return watch.EventType(event.Type), obj, nil
}

// next reads an event, whose object is not yet decoded.
func (s *watchStream) next() (event metav1.WatchEvent, contentType string, err error) {
	if s.in == nil {
		// An event in JSON begins with a brace, and one in protobuf with its length, which is less.
		s.in = bufio.NewReader(s)
		if first, err := s.in.Peek(1); err != nil {
			return event, "", err
		} else if first[0] == '{' {
			s.events = json.NewDecoder(s.in)
		}
	}
	if s.events != nil {
		err = s.events.Decode(&event)
		return event, jsonType, err
	}
	var length [4]byte
	if _, err = io.ReadFull(s.in, length[:]); err != nil {
		return event, "", err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxEvent {
		return event, "", fmt.Errorf("watch %s: an event of %d bytes, the maximum is %d", s.gvk.Kind, n, maxEvent)
	}
	frame := make([]byte, n)
	if _, err = io.ReadFull(s.in, frame); err != nil {
		return event, "", err
	}
	return event, protobufType, event.Unmarshal(frame)
}
