package builtin

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// portsKey is where the ports are that have been given, in a RangeAllocation.
var portsKey = object.Key{Resource: schema.GroupResource{Resource: "ranges"}, Name: "servicenodeports"}

var errPortAllocated = errors.New("provided port is already allocated")

func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.First+r.Size-1) }

func (r PortRange) contains(port int32) bool {
	return int(port) >= r.First && int(port) < r.First+r.Size
}

// claimPorts claims the node ports of a service, and lets go of those that it had.
func (r Ranges) claimPorts(c *resource.Claims, now, before *corev1.Service) error {
	held, wanted := nodePorts(before), now != nil && published(now)
	if len(held) == 0 && !wanted {
		return nil
	}
	p, err := r.openPorts(c, held)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if wanted {
		if err := p.claimFor(now, before); err != nil {
			return err
		}
	}
	kept := nodePorts(now)
	for _, port := range held {
		if !slices.Contains(kept, port) {
			p.set(port, 0)
		}
	}
	return p.save(c)
}

// nodePorts are the ports that a service has on nodes.
func nodePorts(s *corev1.Service) []int32 {
	if s == nil || !published(s) {
		return nil
	}
	var ports []int32
	for _, port := range s.Spec.Ports {
		if port.NodePort != 0 {
			ports = append(ports, port.NodePort)
		}
	}
	if validation.ChecksHealth(s) && s.Spec.HealthCheckNodePort != 0 {
		ports = append(ports, s.Spec.HealthCheckNodePort)
	}
	return ports
}

// portClaim is what one write does to the ports.
type portClaim struct {
	PortRange
	dryRun  bool
	stored  *object.Object // nil if there is none yet
	taken   big.Int        // a bit for each port of the range
	changed bool
	held    []int32 // by the service before
	given   []int32 // to it now
}

func (r Ranges) openPorts(c *resource.Claims, held []int32) (*portClaim, error) {
	p := &portClaim{PortRange: r.NodePorts, dryRun: c.DryRun(), held: held}
	if p.stored, _ = c.State().Get(portsKey); p.stored == nil {
		return p, nil
	}
	return p, p.load(p.stored)
}

// load reads the ports that have been given.
func (p *portClaim) load(o *object.Object) error {
	tree, err := o.Tree()
	if err != nil {
		return err
	}
	data, err := base64.StdEncoding.DecodeString(text(tree, "data"))
	if err != nil {
		return fmt.Errorf("decode %s: %w", portsKey, err)
	}
	p.taken.SetBytes(data)
	return p.move(text(tree, "range"))
}

// move brings what was stored for another range to this one.
func (p *portClaim) move(stored string) error {
	text, _, _ := strings.Cut(stored, "-")
	first, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("range %q of %s: %w", stored, portsKey, err)
	}
	if shift := p.First - first; shift > 0 {
		p.taken.Rsh(&p.taken, uint(shift))
	} else {
		p.taken.Lsh(&p.taken, uint(-shift))
	}
	return nil
}

func (p *portClaim) set(port int32, bit uint) {
	if p.contains(port) {
		p.taken.SetBit(&p.taken, int(port)-p.First, bit)
		p.changed = true
	}
}

// claimFor claims what a service asks for, and gives it what it leaves open.
func (p *portClaim) claimFor(s, before *corev1.Service) error {
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		if port.NodePort == 0 && before == nil && wantsNodePorts(s) {
			port.NodePort = sharedNodePort(s.Spec.Ports, i)
		}
		switch {
		case port.NodePort != 0:
			if err := p.claim(port.NodePort); err != nil {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, s.Name, field.ErrorList{
					field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port.NodePort, err.Error()),
				})
			}
		case wantsNodePorts(s):
			next, err := p.next()
			if err != nil {
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
			}
			port.NodePort = next
		}
	}
	if !validation.ChecksHealth(s) || before != nil && validation.ChecksHealth(before) {
		return nil
	}
	return p.claimHealth(s)
}

func (p *portClaim) claimHealth(s *corev1.Service) error {
	port := s.Spec.HealthCheckNodePort
	if port == 0 {
		next, err := p.next()
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort %d: %w", port, err))
		}
		s.Spec.HealthCheckNodePort = next
		return nil
	}
	if messages := kvalidation.IsValidPortNum(int(port)); p.dryRun && len(messages) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, s.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "healthCheckNodePort"), port, messages[0]),
		})
	}
	err := p.claim(port)
	if err == nil && slices.Contains(nodePortsOf(s), port) {
		err = errPortAllocated
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %d: %w", port, err))
	}
	return nil
}

// nodePortsOf are the ports of a service but for that of health checks.
func nodePortsOf(s *corev1.Service) []int32 {
	var ports []int32
	for _, port := range s.Spec.Ports {
		ports = append(ports, port.NodePort)
	}
	return ports
}

// sharedNodePort is the node port that the same port of a service has under another
// protocol, 0 if there is none.
func sharedNodePort(ports []corev1.ServicePort, i int) int32 {
	for _, other := range ports {
		if other.Port == ports[i].Port && other.NodePort != 0 {
			return other.NodePort
		}
	}
	return 0
}

// claim claims a port. What the service has or has got it may have again.
func (p *portClaim) claim(port int32) error {
	switch {
	case slices.Contains(p.held, port) || slices.Contains(p.given, port):
		return nil
	case !p.contains(port) && !p.dryRun: // a dry run does not look at the range
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %s", p.PortRange)
	case p.contains(port) && p.taken.Bit(int(port)-p.First) == 1:
		return errPortAllocated
	}
	p.give(port)
	return nil
}

func (p *portClaim) give(port int32) {
	p.set(port, 1)
	p.given = append(p.given, port)
}

// next gives a port that nobody has. The first of the range are for those who name
// theirs, until there are no others.
func (p *portClaim) next() (int32, error) {
	if p.dryRun {
		return p.pretend(), nil
	}
	reserved := 0
	if p.Size > 16 {
		reserved = min(max(p.Size/32, 16), 128)
	}
	for _, part := range [][2]int{{reserved, p.Size - reserved}, {0, reserved}} {
		first, n := part[0], part[1]
		if n == 0 {
			continue
		}
		start := rand.IntN(n)
		for i := range n {
			if at := first + (start+i)%n; p.taken.Bit(at) == 0 {
				port := int32(p.First + at)
				p.give(port)
				return port, nil
			}
		}
	}
	return 0, errFull
}

// pretend returns a port that shows what a dry run is about; it is not in the range.
func (p *portClaim) pretend() int32 {
	port := int32(32768)
	if len(p.given) > 0 {
		port = slices.Max(p.given)
	}
	p.given = append(p.given, port+1)
	return port + 1
}

// save writes the ports with the service.
func (p *portClaim) save(c *resource.Claims) error {
	if !p.changed || p.dryRun {
		return nil
	}
	if err := c.Put(portsKey, p.stored, p.tree()); err != nil {
		return apierrors.NewInternalError(err)
	}
	return nil
}

func (p *portClaim) tree() resource.Tree {
	return resource.Tree{
		"apiVersion": "v1",
		"kind":       "RangeAllocation",
		"metadata":   resource.Tree{},
		"range":      p.PortRange.String(),
		"data":       base64.StdEncoding.EncodeToString(p.taken.Bytes()),
	}
}
