package v1

import "k8s.io/apimachinery/pkg/runtime"

func init() { localSchemeBuilder.Register(addDefaultingFuncs) }

func addDefaultingFuncs(s *runtime.Scheme) error { return RegisterDefaults(s) }

func SetDefaults_LatheSpec(s *LatheSpec) {
	if len(s.Labels) == 0 {
		s.Labels = []string{"none"}
	}
}

func SetDefaults_Tool(t *Tool) {
	if t.Width == nil {
		t.Width = new(int32)
	}
}
