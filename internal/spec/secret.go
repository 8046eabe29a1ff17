package spec

// Secret is a value that never prints: every formatting and marshalling of it
// shows a mask. Reveal gives the value.
type Secret string

// Mask stands for a secret that is set.
const Mask = "********"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns a mask, "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Mask
}

// GoString keeps %#v from printing the secret.
func (s Secret) GoString() string { return `spec.Secret("` + s.String() + `")` }

// MarshalText keeps encoders from writing the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
