package kinds

import (
	"context"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/emulation"
	"github.com/kapok-dev/kapok/internal/gates"
	"github.com/kapok-dev/kapok/internal/kinds/devices"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/policies"
	"github.com/kapok-dev/kapok/internal/resource"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Emulate makes definitions behave as in the release of the settings, with its feature gates:
// versions that the release does not have yet are no longer served, and what belongs to features
// that are off is dropped or invalid. It changes the definitions, but not what they point to.
func Emulate(definitions []*resource.Definition, s gates.Settings) {
	if s.Release == emulation.Newest && len(s.Set) == 0 {
		return // that is what they are
	}
	for _, d := range definitions {
		if s.Release < emulation.Newest {
			withoutNewer(d, s.Release)
		}
		losses, rules := lossesOf(d, s), rulesOf(d, s)
		if len(losses) > 0 {
			lose(d, losses)
		}
		if len(losses) > 0 || len(rules) > 0 {
			eachVersion(d, func(v *resource.Version) { v.Model = ruledModel{v.Model.(builtinModel), rules} })
		}
		switch {
		case d.GroupResource() == servicesResource && !s.Enabled(gates.RelaxedServiceNameValidation):
			d.Strategy.ValidateName = apivalidation.NameIsDNS1035Label
		case d.GroupResource() == autoscalersResource && !s.Enabled(gates.HPAGeneration):
			withoutGeneration(d)
		case d.GroupResource() == driversResource && !s.Enabled(gates.CSIServiceAccountTokenSecrets):
			d.Strategy.Warnings = nil // all are about a field of the feature
		case d.GroupResource() == rangesResource && !s.Enabled(gates.ServiceCIDRStatusFieldWiping):
			withStatus(d)
		case d.GroupResource() == claimsResource && !s.Enabled(gates.DRAStatusAuthorization):
			d.Strategy.Permit = devices.PermitAdminAccess
		case d.Group == admissionGroup:
			if !s.Enabled(gates.WebhooksExcludeReviews) && strings.HasSuffix(d.Plural, "webhookconfigurations") {
				d.Strategy.Warnings = nil // all are about the feature
			}
			if !s.Enabled(gates.ManifestBasedAdmission) {
				d.Strategy.Warnings = policies.WarnOfReservedName(d.Strategy.Warnings)
			}
		}
	}
}

// withoutNewer stops serving the versions that came after a release.
func withoutNewer(d *resource.Definition, release emulation.Release) {
	serveOnly(d, func(v *resource.Version) bool {
		introduced, ok := v.Model.New().(interface{ APILifecycleIntroduced() (int, int) })
		if !ok {
			return true
		}
		_, minor := introduced.APILifecycleIntroduced()
		return emulation.Release(minor) <= release
	})
}

// lossesOf returns what objects of a kind lose.
func lossesOf(d *resource.Definition, s gates.Settings) []loss {
	name := d.GroupResource().String()
	var pods []string
	if path, ok := podSpecPaths()[name]; ok {
		pods = strings.Split(path, ".")
	}
	var losses []loss
	for _, f := range features() {
		switch {
		case s.Enabled(f.gate):
		case f.resource == name:
			losses = append(losses, lossOf(f, nil))
		case f.resource == podSpecs && pods != nil:
			losses = append(losses, lossOf(f, pods))
		}
	}
	if pods == nil {
		return losses
	}
	inSpec := func(drop func(spec, old resource.Tree)) loss {
		return loss{drop: func(obj, old resource.Tree) {
			spec, _ := kind.Get(obj, pods...).(resource.Tree)
			before, _ := kind.Get(old, pods...).(resource.Tree)
			drop(spec, before)
		}}
	}
	if !s.Enabled(gates.ContainerRestartRules) {
		losses = append(losses, inSpec(dropRestartRules))
	}
	if !s.Enabled(gates.ImageVolume) {
		losses = append(losses, inSpec(dropImageVolumes))
	}
	return losses
}

// lose drops what objects lose before all else that happens to them when they are written, so that
// nothing is derived from it.
func lose(d *resource.Definition, losses []loss) {
	apply := func(to part, obj, old resource.Tree) {
		for _, l := range losses {
			if l.applies(to) {
				l.drop(obj, old)
			}
		}
	}
	if create := d.Strategy.PrepareCreate; create != nil {
		d.Strategy.PrepareCreate = func(obj resource.Tree) {
			apply(mainPart, obj, nil)
			create(obj)
		}
	}
	if update := d.Strategy.PrepareUpdate; update != nil {
		d.Strategy.PrepareUpdate = func(obj, old resource.Tree) {
			apply(mainPart, obj, old)
			update(obj, old)
		}
	}
	eachVersion(d, func(v *resource.Version) {
		v.Subresources = slices.Clone(v.Subresources)
		for i := range v.Subresources {
			sub := &v.Subresources[i]
			if prepare := sub.Prepare; prepare != nil {
				to := part(sub.Name)
				sub.Prepare = func(obj, old resource.Tree) {
					apply(to, obj, old)
					prepare(obj, old)
				}
			}
		}
	})
}

// withoutGeneration lets a kind have no generation, except for one that a client has set on create.
func withoutGeneration(d *resource.Definition) {
	create, update := d.Strategy.PrepareCreate, d.Strategy.PrepareUpdate
	d.Strategy.PrepareCreate = func(obj resource.Tree) {
		sent := resource.Tree{"metadata": resource.Tree{}}
		kind.Keep(sent, obj, "metadata", "generation")
		create(obj)
		kind.Keep(obj, sent, "metadata", "generation")
	}
	d.Strategy.PrepareUpdate = func(obj, old resource.Tree) {
		update(obj, old)
		kind.Keep(obj, old, "metadata", "generation")
	}
}

// withStatus lets writes of the main resource of a kind set the status.
func withStatus(d *resource.Definition) {
	create, update := d.Strategy.PrepareCreate, d.Strategy.PrepareUpdate
	keeping := func(obj resource.Tree, prepare func()) {
		sent := resource.Tree{}
		kind.Keep(sent, obj, "status")
		prepare()
		delete(obj, "status")
		kind.Keep(obj, sent, "status")
	}
	d.Strategy.PrepareCreate = func(obj resource.Tree) { keeping(obj, func() { create(obj) }) }
	d.Strategy.PrepareUpdate = func(obj, old resource.Tree) { keeping(obj, func() { update(obj, old) }) }
	eachVersion(d, func(v *resource.Version) { v.ResetFields = nil })
}

// eachVersion replaces the versions of a definition by copies that change has changed.
func eachVersion(d *resource.Definition, change func(v *resource.Version)) {
	copies := map[*resource.Version]*resource.Version{}
	replace := func(v *resource.Version) *resource.Version {
		if v == nil {
			return nil
		}
		if copies[v] == nil {
			changed := *v
			change(&changed)
			copies[v] = &changed
		}
		return copies[v]
	}
	all := func(versions []*resource.Version) []*resource.Version {
		changed := make([]*resource.Version, len(versions))
		for i, v := range versions {
			changed[i] = replace(v)
		}
		return changed
	}
	d.Versions, d.Unserved, d.Storage = all(d.Versions), all(d.Unserved), replace(d.Storage)
}

// A rule changes the errors of a validation. old is nil on create.
type rule func(errs field.ErrorList, obj, old resource.Tree, subresource string) field.ErrorList

// A ruledModel is the model of a built-in kind while features of it are off.
type ruledModel struct {
	builtinModel
	rules []rule
}

// A builtinModel has what the models of all built-in kinds have.
type builtinModel interface {
	resource.Model
	resource.TypedModel
}

// Fingerprint implements resource.Model. It is another one than without rules: defaults of a
// feature are missing in what is stored while the feature is off, and are filled in once it is on.
func (m ruledModel) Fingerprint() uint64 {
	const some = 0x9e3779b97f4a7c15
	return max(m.builtinModel.Fingerprint()^some, 1)
}

// Validate implements resource.Model.
func (m ruledModel) Validate(ctx context.Context, obj, old resource.Tree, subresource string) field.ErrorList {
	errs := m.builtinModel.Validate(ctx, obj, old, subresource)
	for _, r := range m.rules {
		errs = r(errs, obj, old, subresource)
	}
	return errs
}
