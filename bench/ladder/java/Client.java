import com.opendatagroup.dfsservice.DfsV2;
import com.opendatagroup.dfsservice.GetFileInfoRequest;
import jakarta.ws.rs.client.ClientBuilder;
import jakarta.ws.rs.client.WebTarget;
import jakarta.ws.rs.core.MediaType;
import java.util.Arrays;
import java.util.Locale;
import java.util.Scanner;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TJSONProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.transport.THttpClient;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransport;
import org.glassfish.jersey.jackson.JacksonFeature;

/**
 * A client of one form of the article's service, or of a gateway in the same form: Client FORM PORT
 * [TOKEN]. Each line of its standard input is an order: a number of calls. It answers with a line
 * of JSON, after it has made them one after the other.
 */
class Client {
    static final String HOST = "127.0.0.1";
    static final String SYMBOL = "CSCO";

    /** One call; whether its answer is right. */
    interface Call {
        boolean answered() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Scanner orders = new Scanner(System.in);
        while (orders.hasNextLine()) {
            // Anew for each order: libraries count a connection's bytes, and end it at a limit.
            Call call = call(args[0], Integer.parseInt(args[1]), args.length > 2 ? args[2] : null);
            System.out.println(obey(call, Integer.parseInt(orders.nextLine().trim())));
        }
    }

    static String obey(Call call, int calls) throws Exception {
        // Not counted: it connects.
        holds(call.answered());
        long[] took = new long[calls];
        long start = System.nanoTime();
        long before = start;
        for (int i = 0; i < calls; i++) {
            holds(call.answered());
            long now = System.nanoTime();
            took[i] = now - before;
            before = now;
        }
        Arrays.sort(took);
        return String.format(
                Locale.ROOT,
                "{\"calls\":%d,\"seconds\":%.9f,\"p50_us\":%.3f}",
                calls,
                (before - start) / 1e9,
                took[(calls - 1) / 2] / 1e3);
    }

    static void holds(boolean isRight) {
        if (!isRight) {
            throw new IllegalStateException("a wrong answer");
        }
    }

    static Call call(String form, int port, String token) throws Exception {
        String url = "http://" + HOST + ":" + port;
        switch (form) {
            case "soap":
                Soap.Trade soap = Soap.client(url + "/soap");
                return () -> soap.get_last_sale(SYMBOL).price == 25.50;
            case "rest":
                WebTarget sale =
                        rest(url).path("tradehistory/get_last_sale").queryParam("symbol", SYMBOL);
                return () -> sale.request(MediaType.APPLICATION_JSON).get(Rest.Report.class).price == 25.50;
            case "thrift-http":
                return trade(new TJSONProtocol(new THttpClient(url)));
            case "thrift-json":
                return trade(new TJSONProtocol(connected(port)));
            case "thrift-binary":
                return trade(new TBinaryProtocol(connected(port)));
            case "gateway-rest":
                WebTarget status = rest(url).path("v1/status/" + SYMBOL);
                return () ->
                        status.request(MediaType.APPLICATION_JSON)
                                .header("Authorization", "Bearer " + token)
                                .get(String.class)
                                .contains("\"length\":0");
            case "gateway-http":
                THttpClient http = new THttpClient(url + "/thrift");
                http.setCustomHeader("Authorization", "Bearer " + token);
                return gateway(new TJSONProtocol(http), token);
            case "gateway-json":
                return gateway(new TJSONProtocol(connected(port)), token);
            case "gateway-binary":
                return gateway(new TBinaryProtocol(connected(port)), token);
            default:
                throw new IllegalArgumentException("no form " + form);
        }
    }

    static WebTarget rest(String url) {
        return ClientBuilder.newClient().register(JacksonFeature.class).target(url);
    }

    static TTransport connected(int port) throws Exception {
        TSocket socket = new TSocket(HOST, port);
        socket.open();
        return socket;
    }

    static Call trade(TProtocol protocol) {
        TradeHistory.Client client = new TradeHistory.Client(protocol);
        return () -> client.get_last_sale(SYMBOL).getPrice() == 25.50;
    }

    static Call gateway(TProtocol protocol, String token) {
        DfsV2.Client client = new DfsV2.Client(protocol);
        GetFileInfoRequest request = new GetFileInfoRequest().setSession(token).setPath("/" + SYMBOL);
        return () -> client.getFileInfo(request).getInfo().getLength() == 0;
    }
}
