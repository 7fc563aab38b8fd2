package services

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PortsKey is the key of the RangeAllocation with the claimed node ports.
var PortsKey = object.Key{Resource: schema.GroupResource{Resource: "ranges"}, Name: "servicenodeports"}

// ErrPortAllocated is the error of a node port that another service has, in Kubernetes' words.
var ErrPortAllocated = errors.New("provided port is already allocated")

// String returns the first and the last port, as 30000-32767.
func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.First+r.Size-1) }

func (r PortRange) contains(port int32) bool {
	return int(port) >= r.First && int(port) < r.First+r.Size
}

// claimPorts claims the node ports of a service and releases those that it no longer has.
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
			p.Set(port, 0)
		}
	}
	return p.save(c)
}

// nodePorts returns the node ports of a service.
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
	if checksHealth(s) && s.Spec.HealthCheckNodePort != 0 {
		ports = append(ports, s.Spec.HealthCheckNodePort)
	}
	return ports
}

// PortClaim collects the changes of one write to the claimed ports.
type PortClaim struct {
	PortRange
	dryRun  bool
	stored  *object.Object // nil if it does not exist
	Taken   big.Int        // bit i is port First+i
	changed bool
	held    []int32 // ports that the service had before
	given   []int32 // ports claimed in this write
}

func (r Ranges) openPorts(c *resource.Claims, held []int32) (*PortClaim, error) {
	p := &PortClaim{PortRange: r.NodePorts, dryRun: c.DryRun(), held: held}
	if p.stored, _ = c.State().Get(PortsKey); p.stored == nil {
		return p, nil
	}
	return p, p.Load(p.stored)
}

// Load decodes the stored ports.
func (p *PortClaim) Load(o *object.Object) error {
	tree, err := o.Tree()
	if err != nil {
		return err
	}
	data, err := base64.StdEncoding.DecodeString(kind.Text(tree, "data"))
	if err != nil {
		return fmt.Errorf("decode %s: %w", PortsKey, err)
	}
	p.Taken.SetBytes(data)
	return p.move(kind.Text(tree, "range"))
}

// move converts ports stored for another range to the current one.
func (p *PortClaim) move(stored string) error {
	text, _, _ := strings.Cut(stored, "-")
	first, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("range %q of %s: %w", stored, PortsKey, err)
	}
	if shift := p.First - first; shift > 0 {
		p.Taken.Rsh(&p.Taken, uint(shift))
	} else {
		p.Taken.Lsh(&p.Taken, uint(-shift))
	}
	return nil
}

// Set marks ports as taken or free.
func (p *PortClaim) Set(port int32, bit uint) {
	if p.contains(port) {
		p.Taken.SetBit(&p.Taken, int(port)-p.First, bit)
		p.changed = true
	}
}

// claimFor claims the node ports that a service names, and chooses those that it leaves open.
func (p *PortClaim) claimFor(s, before *corev1.Service) error {
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		if port.NodePort == 0 && before == nil && wantsNodePorts(s) {
			port.NodePort = sharedNodePort(s.Spec.Ports, i)
		}
		switch {
		case port.NodePort != 0:
			if err := p.Claim(port.NodePort); err != nil {
				return causes.Invalid(schema.GroupKind{Kind: "Service"}, s.Name, field.ErrorList{
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
	if !checksHealth(s) || before != nil && checksHealth(before) {
		return nil
	}
	return p.claimHealth(s)
}

func (p *PortClaim) claimHealth(s *corev1.Service) error {
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
		return causes.Invalid(schema.GroupKind{Kind: "Service"}, s.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "healthCheckNodePort"), port, messages[0]),
		})
	}
	err := p.Claim(port)
	if err == nil && slices.Contains(nodePortsOf(s), port) {
		err = ErrPortAllocated
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %d: %w", port, err))
	}
	return nil
}

// nodePortsOf returns the node ports of a service, except that of health checks.
func nodePortsOf(s *corev1.Service) []int32 {
	var ports []int32
	for _, port := range s.Spec.Ports {
		ports = append(ports, port.NodePort)
	}
	return ports
}

// sharedNodePort returns the node port that the same port has under another protocol, 0 if there is
// none.
func sharedNodePort(ports []corev1.ServicePort, i int) int32 {
	for _, other := range ports {
		if other.Port == ports[i].Port && other.NodePort != 0 {
			return other.NodePort
		}
	}
	return 0
}

// Claim claims a port. Ports that the service had or has claimed in this write may be claimed
// again.
func (p *PortClaim) Claim(port int32) error {
	switch {
	case slices.Contains(p.held, port) || slices.Contains(p.given, port):
		return nil
	case !p.contains(port) && !p.dryRun: // a dry run does not look at the range
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %s", p.PortRange)
	case p.contains(port) && p.Taken.Bit(int(port)-p.First) == 1:
		return ErrPortAllocated
	}
	p.give(port)
	return nil
}

func (p *PortClaim) give(port int32) {
	p.Set(port, 1)
	p.given = append(p.given, port)
}

// next returns a free port. The lower part of the range is kept for services that name their port,
// until the rest is full.
func (p *PortClaim) next() (int32, error) {
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
			if at := first + (start+i)%n; p.Taken.Bit(at) == 0 {
				port := int32(p.First + at)
				p.give(port)
				return port, nil
			}
		}
	}
	return 0, errFull
}

// pretend returns a port for the answer to a dry run; it is not in the range.
func (p *PortClaim) pretend() int32 {
	port := int32(32768)
	if len(p.given) > 0 {
		port = slices.Max(p.given)
	}
	p.given = append(p.given, port+1)
	return port + 1
}

// save adds the changed ports to the service's commit.
func (p *PortClaim) save(c *resource.Claims) error {
	if !p.changed || p.dryRun {
		return nil
	}
	if err := c.Put(PortsKey, p.stored, p.Tree()); err != nil {
		return apierrors.NewInternalError(err)
	}
	return nil
}

// Tree returns the object that stores the claim.
func (p *PortClaim) Tree() resource.Tree {
	return resource.Tree{
		"apiVersion": "v1",
		"kind":       "RangeAllocation",
		"metadata":   resource.Tree{},
		"range":      p.PortRange.String(),
		"data":       base64.StdEncoding.EncodeToString(p.Taken.Bytes()),
	}
}
