import jakarta.servlet.http.HttpServlet;
import java.net.InetSocketAddress;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.thrift.TProcessor;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TJSONProtocol;
import org.apache.thrift.protocol.TProtocolFactory;
import org.apache.thrift.server.TServlet;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.glassfish.jersey.jackson.JacksonFeature;
import org.glassfish.jersey.server.ResourceConfig;
import org.glassfish.jersey.servlet.ServletContainer;

/** The article's service in one of its forms, on a port of loopback: Server FORM PORT. */
class Server {
    static final String HOST = "127.0.0.1";

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        switch (args[0]) {
            case "soap":
                inTomcat(port, new Soap.Servlet());
                break;
            case "rest":
                inTomcat(port, new ServletContainer(new ResourceConfig(Rest.class, JacksonFeature.class)));
                break;
            case "thrift-http":
                inTomcat(port, new TServlet(processor(), new TJSONProtocol.Factory()));
                break;
            case "thrift-json":
                overTcp(port, new TJSONProtocol.Factory());
                break;
            case "thrift-binary":
                overTcp(port, new TBinaryProtocol.Factory());
                break;
            default:
                throw new IllegalArgumentException("no form " + args[0]);
        }
    }

    static TProcessor processor() {
        TradeHistory.Iface handler = symbol -> new TradeReport(symbol, 25.50, 100, 1);
        return new TradeHistory.Processor<>(handler);
    }

    static void inTomcat(int port, HttpServlet servlet) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(System.getProperty("java.io.tmpdir") + "/tomcat-" + port);
        tomcat.setHostname(HOST);
        tomcat.setPort(port);
        tomcat.getConnector().setProperty("address", HOST);
        // By default a connection ends after 100 requests, and the suite would measure connects.
        tomcat.getConnector().setProperty("maxKeepAliveRequests", "-1");
        Context context = tomcat.addContext("", null);
        Tomcat.addServlet(context, "service", servlet).setLoadOnStartup(1);
        context.addServletMappingDecoded("/*", "service");
        tomcat.start();
        tomcat.getServer().await();
    }

    static void overTcp(int port, TProtocolFactory protocol) throws Exception {
        TServerSocket socket = new TServerSocket(new InetSocketAddress(HOST, port));
        new TThreadPoolServer(
                        new TThreadPoolServer.Args(socket).protocolFactory(protocol).processor(processor()))
                .serve();
    }
}
