package plugins

import "testing"

func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		name            string
		enable, disable []string
		want            string // of the error
		on, off         []string
	}{
		{name: "defaults", on: []string{"LimitRanger", "ResourceQuota", "PodSecurity", "NamespaceLifecycle"}, off: []string{"OwnerReferencesPermissionEnforcement", "AlwaysDeny"}},
		{name: "optional ones", enable: []string{"AlwaysAdmit", "AlwaysPullImages", "EventRateLimit", "ImagePolicyWebhook", "NamespaceAutoProvision"},
			on: []string{"AlwaysAdmit", "AlwaysPullImages", "EventRateLimit", "ImagePolicyWebhook", "NamespaceAutoProvision", "PodTopologyLabels"}, off: []string{"NamespaceExists"}},
		{name: "changed", enable: []string{"OwnerReferencesPermissionEnforcement"}, disable: []string{"ResourceQuota"},
			on: []string{"OwnerReferencesPermissionEnforcement", "LimitRanger"}, off: []string{"ResourceQuota"}},
		{name: "unknown", enable: []string{"Unknown"}, disable: []string{"unknown"},
			want: "enable-admission-plugins plugin \"Unknown\" is unknown\ndisable-admission-plugins plugin \"unknown\" is unknown"},
		{name: "both", enable: []string{"Priority", "LimitRanger"}, disable: []string{"LimitRanger", "Priority"},
			want: "[LimitRanger Priority] in enable-admission-plugins and disable-admission-plugins overlapped"},
		{name: "not to be disabled", disable: []string{"NamespaceLifecycle"}, want: `disable-admission-plugins: plugin "NamespaceLifecycle" cannot be disabled: remove it from the list`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := Options{Enable: tc.enable, Disable: tc.disable}
			got := ""
			if err := o.Validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			for _, name := range tc.on {
				if !o.On(name) {
					t.Errorf("%s is off", name)
				}
			}
			for _, name := range tc.off {
				if o.On(name) {
					t.Errorf("%s is on", name)
				}
			}
		})
	}
}
