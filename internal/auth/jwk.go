package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// Bounds of the keys of one set.
const (
	maxKeys       = 64
	minRSABits    = 2048
	maxRSABits    = 8192
	maxKeyIDBytes = 512
)

// publicKey is a key that may verify signatures.
type publicKey struct {
	id string // "" when the set does not name it
	// algorithm is the only one that the key is for; "" is each of its kind.
	algorithm string
	key       any // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// jwk is a key as RFC 7517 writes it. Members that are not here do not matter
// to us: certificates among them, which would be a second way to say the key.
type jwk struct {
	Type       string   `json:"kty"`
	Use        string   `json:"use"`
	Operations []string `json:"key_ops"`
	Algorithm  string   `json:"alg"`
	ID         string   `json:"kid"`
	Curve      string   `json:"crv"`
	N          string   `json:"n"`
	E          string   `json:"e"`
	X          string   `json:"x"`
	Y          string   `json:"y"`
}

// parseKeys reads a key set. A key that is not for us, or that is broken, does
// not spoil the others: refused holds why each was left out. A set without any
// usable key is an error.
func parseKeys(data []byte) (keys []publicKey, refused []error, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, nil, fmt.Errorf("the answer is not a key set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, nil, fmt.Errorf("the key set holds %d keys; at most %d are taken", len(set.Keys), maxKeys)
	}
	for i, text := range set.Keys {
		key, err := parseKey(text)
		if err != nil {
			refused = append(refused, fmt.Errorf("keys[%d]: %w", i, err))
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, refused, errors.Join(append([]error{errNoKeys}, refused...)...)
	}
	return keys, refused, nil
}

var errNoKeys = errors.New("the key set holds no key that verifies tokens")

func parseKey(text json.RawMessage) (publicKey, error) {
	var k jwk
	if err := json.Unmarshal(text, &k); err != nil {
		return publicKey{}, fmt.Errorf("not a key: %w", err)
	}
	switch {
	case len(k.ID) > maxKeyIDBytes:
		return publicKey{}, fmt.Errorf("its kid is longer than %d bytes", maxKeyIDBytes)
	case k.Use != "" && k.Use != "sig":
		return publicKey{}, fmt.Errorf("its use is %q, not sig", k.Use)
	case len(k.Operations) > 0 && !slices.Contains(k.Operations, "verify"):
		return publicKey{}, errors.New("verify is not among its key_ops")
	}
	key, err := k.material()
	if err != nil {
		return publicKey{}, err
	}
	if k.Algorithm == "Ed25519" { // RFC 9864's name of what tokens call EdDSA
		k.Algorithm = "EdDSA"
	}
	if k.Algorithm != "" && !fits(k.Algorithm, key) {
		return publicKey{}, fmt.Errorf("its alg %q is not one of a %s key's that are taken", k.Algorithm, k.Type)
	}
	return publicKey{id: k.ID, algorithm: k.Algorithm, key: key}, nil
}

// material builds the key. Symmetric keys ("oct") are refused with the unknown
// kinds: what a URL hands out to everyone proves nothing.
func (k jwk) material() (any, error) {
	switch k.Type {
	case "RSA":
		return k.rsa()
	case "EC":
		return k.ecdsa()
	case "OKP":
		return k.ed25519()
	}
	return nil, fmt.Errorf("its kty is %q; RSA, EC and OKP are taken", k.Type)
}

func (k jwk) rsa() (*rsa.PublicKey, error) {
	n, err := decodeNumber("n", k.N)
	if err != nil {
		return nil, err
	}
	e, err := decodeNumber("e", k.E)
	if err != nil {
		return nil, err
	}
	if bits := n.BitLen(); bits < minRSABits || bits > maxRSABits {
		return nil, fmt.Errorf("it has %d bits; %d to %d are taken", bits, minRSABits, maxRSABits)
	}
	if !e.IsInt64() || e.Int64() < 3 || e.Int64() > math.MaxInt32 || e.Bit(0) == 0 {
		return nil, errors.New("its exponent e is out of range")
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
}

func (k jwk) ecdsa() (*ecdsa.PublicKey, error) {
	var curve elliptic.Curve
	switch k.Curve {
	case "P-256":
		curve = elliptic.P256()
	case "P-384":
		curve = elliptic.P384()
	case "P-521":
		curve = elliptic.P521()
	default:
		return nil, fmt.Errorf("its crv is %q; P-256, P-384 and P-521 are taken", k.Curve)
	}
	size := (curve.Params().BitSize + 7) / 8
	point := []byte{4} // uncompressed
	for name, text := range [2]string{k.X, k.Y} {
		coordinate, err := decode(string("xy"[name]), text)
		if err != nil {
			return nil, err
		}
		if len(coordinate) != size {
			return nil, fmt.Errorf("its coordinates have %d bytes, not %d", len(coordinate), size)
		}
		point = append(point, coordinate...)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(curve, point)
	if err != nil {
		return nil, errors.New("its point is not on the curve")
	}
	return key, nil
}

func (k jwk) ed25519() (ed25519.PublicKey, error) {
	if k.Curve != "Ed25519" {
		return nil, fmt.Errorf("its crv is %q; Ed25519 is taken", k.Curve)
	}
	x, err := decode("x", k.X)
	if err != nil {
		return nil, err
	}
	if len(x) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("its x has %d bytes, not %d", len(x), ed25519.PublicKeySize)
	}
	return ed25519.PublicKey(x), nil
}

func decode(name, text string) ([]byte, error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(data) == 0 {
		return nil, fmt.Errorf("its member %s is missing or not base64url", name)
	}
	return data, nil
}

func decodeNumber(name, text string) (*big.Int, error) {
	data, err := decode(name, text)
	if err != nil {
		return nil, err
	}
	return new(big.Int).SetBytes(data), nil
}

// publicAlgorithms are those of a verifier with public keys.
func publicAlgorithms() []string {
	return []string{
		"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
	}
}

// fits reports whether the algorithm is one of ours and works with a key of
// this kind. Each curve has one algorithm.
func fits(algorithm string, key any) bool {
	if !slices.Contains(publicAlgorithms(), algorithm) {
		return false
	}
	switch key := key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return algorithm == curveAlgorithm(key.Curve)
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}

func curveAlgorithm(curve elliptic.Curve) string {
	switch curve {
	case elliptic.P256():
		return "ES256"
	case elliptic.P384():
		return "ES384"
	}
	return "ES512"
}
