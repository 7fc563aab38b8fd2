package endpoint

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/fairness"
	"github.com/kapok-dev/kapok/internal/resource"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Memory, in bytes, that a request takes for its body. An object of a built-in kind becomes a Go
// struct with room for all its fields, and a tree; each value may be invalid and have an error of
// its own. test/cost measures both.
const (
	memoryPerByte   = 32      // of any body
	memoryPerNode   = 512     // of YAML, for its parser
	memoryPerStruct = 6 << 10 // of a built-in kind
	memoryPerError  = 512
	memoryPerMap    = 1 << 10 // of a custom resource, which has no Go type
	memoryPerValue  = 128
)

const (
	// lightRequest is the weight up to which only the number of requests is limited.
	lightRequest = 1 << 20
	// heavyRequest is the weight from which on only one request runs for two processors.
	heavyRequest = 16 << 20
	// lightBody is the number of bytes of a body that are read without a reservation.
	lightBody = 64 << 10
	// lateRequest is the memory, in bytes, that a request retains while it waits for its body, besides
	// the body: a goroutine with its stack, and the state of the stream.
	lateRequest = 8 << 10
	// deepestProtobuf limits the depth to which protobuf messages are inspected.
	deepestProtobuf = 32
)

// weight estimates the memory, in bytes, that a request takes for its body.
func weight(e encoding, data []byte, typed bool) int64 {
	size := int64(len(data))
	switch {
	case e == asProtobuf:
		perObject, _ := perObjectAndValue(typed)
		n, _ := messagesIn(data[min(len(envelopeMagic), len(data)):], deepestProtobuf)
		return memoryPerByte*size + perObject*n
	case e == asYAML || size > 0 && data[0] != '{':
		nodes, objects := nodesIn(data)
		return memoryPerByte*size + memoryPerNode*nodes + memoryPerMap*objects
	}
	return weightOfJSON(data, typed)
}

// weightOfJSON is weight for valid JSON of any type.
func weightOfJSON(data []byte, typed bool) int64 {
	perObject, perValue := perObjectAndValue(typed)
	objects, values := valuesIn(data)
	return memoryPerByte*int64(len(data)) + perObject*objects + perValue*values
}

func perObjectAndValue(typed bool) (object, value int64) {
	if typed {
		return memoryPerStruct, memoryPerError
	}
	return memoryPerMap, memoryPerValue
}

// valuesIn counts the objects in JSON, where four lists count as one object, and all values.
func valuesIn(data []byte) (objects, values int64) {
	lists := int64(0)
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{':
			objects++
		case '[':
			lists++
		case ',':
			values++
		case '"':
			i = skipString(data, i) - 1
		}
	}
	return objects + lists/4, values
}

// nodesIn counts possible nodes and possible objects in YAML. It includes text in blocks.
func nodesIn(data []byte) (nodes, objects int64) {
	for i, b := range data {
		switch b {
		case '{':
			nodes++
			objects++
		case '\n', ',', '[':
			nodes++
		case '-':
			if i+1 < len(data) && data[i+1] == ' ' {
				objects++
			}
		}
	}
	return nodes, objects
}

// messagesIn counts the messages in a protobuf message. A text that is also a valid message counts
// as one: only the schema distinguishes them.
func messagesIn(data []byte, depth int) (n int64, ok bool) {
	n = 1
	for len(data) > 0 {
		_, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return 1, false
		}
		data = data[size:]
		if kind != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(1, kind, data); size < 0 {
				return 1, false
			}
			data = data[size:]
			continue
		}
		value, size := protowire.ConsumeBytes(data)
		if size < 0 {
			return 1, false
		}
		data = data[size:]
		if depth > 0 {
			if inside, ok := messagesIn(value, depth-1); ok {
				n += inside
			}
		}
	}
	return n, true
}

// takeBody reads the body of a request for a resource. The request is authorized and has a seat. If
// the body is late, it is read without the seat, so that a slow client does not occupy one; the
// request then waits for a seat again. The memory of the body is limited while it is read, and
// until [call.takeMemory]. If the body cannot be read, the error is kept for [call.readBody],
// because other errors take precedence.
//
// It returns false if it has sent a response.
func (c *call) takeBody(a *authz.Attributes) bool {
	if !c.hasBody() {
		return true
	}
	c.data, c.dataErr = c.drainInTime()
	if errors.Is(c.dataErr, errNoRoom) {
		c.tooMany()
		return false
	}
	growStack()
	return !c.late || c.enter(a)
}

// takeMemory reserves the estimated memory of a request that is not light. Like enterHeavy, it runs
// when the request has a seat, which it gives back if it has to wait: requests that wait for a seat
// hold no memory that others wait for. It returns false if it has sent a response.
func (c *call) takeMemory() bool {
	defer c.leaveReading() // included in the weight
	if c.dataErr != nil || len(c.data) == 0 {
		return true
	}
	e, err := bodyEncoding(c.r)
	if err != nil {
		e = asJSON // a patch
	}
	weight := weight(e, c.data, c.typed())
	if most := c.h.memory.Total(); weight <= most {
		weight = min(weight+c.weightOfStored(), most) // stored objects can be changed and deleted, whatever their weight
	}
	c.weighed = weight
	switch {
	case weight <= lightRequest:
		return true
	case weight > c.h.memory.Total():
		c.dataErr = c.tooHeavy(weight)
		return true
	}
	if !c.reserve(c.h.memory, weight) {
		return false
	}
	c.reserved = weight
	return true
}

// reserve reserves a part of m. It gives the seat of the request back if it has to wait. If there
// is no room, it responds with 429 and returns false.
func (c *call) reserve(m *fairness.Memory, part int64) bool {
	if m.Try(c.user.Name, part) {
		return true
	}
	c.pass.Leave()
	ok := false
	c.await(func(patience time.Duration) { ok = m.Reserve(c.r.Context(), c.user.Name, part, patience) })
	if !ok {
		c.tooMany()
	}
	return ok
}

// enterHeavy waits until few heavy requests are under way, or responds with 429. A heavy request is
// most of a second of work, and others need a processor meanwhile. It runs when the request has a
// seat: if a request waited for a seat in a place, it would block requests that need no seat.
func (c *call) enterHeavy() bool {
	if c.reserved > heavyRequest {
		c.heavy = c.reserve(c.h.heavy, 1)
		return c.heavy
	}
	return true
}

// weightOfStored estimates the weight of the object that the request changes.
func (c *call) weightOfStored() int64 {
	if c.info.Name == "" {
		return 0
	}
	d := c.kind()
	if d == nil {
		return 0
	}
	o, _ := c.h.store.State().Get(d.Key(c.info.Namespace, c.info.Name))
	if o == nil || len(o.Raw) < lightBody {
		return 0
	}
	return weight(asJSON, o.Raw, !d.Custom)
}

// weighConverted reserves memory for a body that was converted from YAML to JSON.
func (c *call) weighConverted(data []byte) error {
	return c.grow(weight(asJSON, data, c.typed()))
}

// weighCopies reserves memory for the values that a JSON patch copies: a patch of 4 KB can grow an
// object of 60 KB to 3 MB.
func (c *call) weighCopies() func(data []byte) error {
	weighed := c.weighed
	return func(data []byte) error {
		weighed += weightOfJSON(data, c.typed())
		return c.grow(weighed)
	}
}

// grow increases the reservation to a larger weight. It does not wait, because the request holds
// memory that others wait for.
func (c *call) grow(weight int64) error {
	more := weight - c.reserved
	switch {
	case weight <= lightRequest || more <= 0:
	case weight > c.h.memory.Total():
		return c.tooHeavy(weight)
	case !c.h.memory.Grow(c.user.Name, c.reserved, more):
		return errNoRoom
	default:
		c.reserved += more
	}
	return nil
}

func (c *call) tooHeavy(weight int64) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"the objects in the body would take about %d MiB of memory, the limit is %d MiB", weight>>20, c.h.memory.Total()>>20))
}

// hasBody reports whether the request may have a body that this server reads.
func (c *call) hasBody() bool {
	switch c.r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return c.info.IsResource && c.r.ContentLength != 0 && !c.info.longRunning() && c.remote == nil
	}
	return false
}

// kind returns the definition of the resource of the request; nil if it is not served.
func (c *call) kind() *resource.Definition {
	return c.h.store.Registry().Load().Resource(schema.GroupResource{Group: c.info.Group, Resource: c.info.Resource})
}

// typed reports whether the request is for a built-in kind.
func (c *call) typed() bool {
	d := c.kind()
	return d != nil && !d.Custom
}

// errNoRoom is returned if requests hold all the memory for requests, or for bodies.
var errNoRoom = apierrors.NewTooManyRequests("there is no memory left for the request, please try again later", 1)

// room reserves memory for a body that has grown to a size while it is read. Requests that are
// exempt from limits have memory of their own, so that bodies that wait for seats cannot use it up.
func (c *call) room(bytes int64) error {
	if bytes <= lightBody {
		return nil
	}
	if c.readingOf == nil {
		if c.readingOf = c.h.bodies; c.pass.Exempt() {
			c.readingOf = c.h.exempted
		}
	}
	if !c.readingOf.Grow(c.user.Name, c.reading, bytes-c.reading) {
		return errNoRoom
	}
	c.reading = bytes
	return nil
}

// roomForLate reserves the memory that a late request retains, and its body up to lightBody: one
// user can open thousands of requests and hold back their bodies. Requests that are exempt from
// limits reserve nothing.
func (c *call) roomForLate() bool {
	if c.pass.Exempt() {
		return true
	}
	bytes := lateRequest + int64(lightBody)
	if size := c.r.ContentLength; size >= 0 {
		bytes = lateRequest + min(size, lightBody)
	}
	if !c.h.bodies.Grow(c.user.Name, 0, bytes) {
		return false
	}
	c.lateBytes = bytes
	return true
}

// leaveReading releases what room and roomForLate have reserved.
func (c *call) leaveReading() {
	if c.lateBytes > 0 {
		c.h.bodies.Release(c.user.Name, c.lateBytes)
		c.lateBytes = 0
	}
	if c.reading > 0 {
		c.readingOf.Release(c.user.Name, c.reading)
		c.reading = 0
	}
}

// leaveMemory releases what takeMemory and enterHeavy have reserved.
func (c *call) leaveMemory() {
	if c.heavy {
		c.h.heavy.Release(c.user.Name, 1)
		c.heavy = false
	}
	if c.reserved > 0 {
		c.h.memory.Release(c.user.Name, c.reserved)
		c.reserved = 0
	}
}

// tooMany responds with 429.
func (c *call) tooMany() {
	c.w.Header().Set("Retry-After", "1")
	http.Error(&c.w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}
