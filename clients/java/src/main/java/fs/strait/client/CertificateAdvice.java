package fs.strait.client;

import java.io.IOException;
import java.security.cert.CertificateException;
import java.security.cert.CertificateExpiredException;
import java.security.cert.CertificateNotYetValidException;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.net.ssl.SSLException;

/** Problems of certificates, with their remedies. */
final class CertificateAdvice {
    // Alerts of RFC 8446, section 6.2, as Java names them, about our certificate.
    private static final Map<String, String> REFUSALS = new LinkedHashMap<>();

    static {
        REFUSALS.put(
                "certificate_required",
                "it wants a certificate of the client: give it by Tls.identity(certificate, key)");
        REFUSALS.put(
                "certificate_expired",
                "it rejects the client's certificate: it has expired; renew it");
        REFUSALS.put(
                "certificate_revoked",
                "it rejects the client's certificate: it was revoked; get a new one");
        String ofAnother =
                "it rejects the client's certificate; get one from the gateway's authority";
        REFUSALS.put("unknown_ca", ofAnother);
        REFUSALS.put("certificate_unknown", ofAnother);
        REFUSALS.put("unsupported_certificate", ofAnother);
        REFUSALS.put("bad_certificate", ofAnother);
    }

    private CertificateAdvice() {}

    /** Advice about the gateway's certificate. */
    static String onGateways(CertificateException error) {
        String why = " (" + error.getMessage() + ")";
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof CertificateExpiredException) {
                return "its certificate has expired; renew it at the gateway" + why;
            }
            if (cause instanceof CertificateNotYetValidException) {
                return "its certificate isn't valid yet; check the clocks of both machines" + why;
            }
        }
        if (why.contains("subject alternative")) {
            return "its certificate is for another name; connect by that name, or renew it with"
                    + " this one"
                    + why;
        }
        return "its certificate isn't trusted; name its authority by Tls.trusting(file)" + why;
    }

    /** Advice if the gateway rejected our certificate or missed one; null if it didn't. */
    static String onRefusal(IOException error) {
        String message = String.valueOf(error.getMessage());
        if (!(error instanceof SSLException) || !message.contains("fatal alert")) {
            return null;
        }
        return REFUSALS.entrySet().stream()
                .filter(refusal -> message.contains(refusal.getKey()))
                .map(Map.Entry::getValue)
                .findFirst()
                .orElse(null);
    }
}
