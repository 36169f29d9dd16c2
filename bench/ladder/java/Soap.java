import jakarta.jws.WebParam;
import jakarta.jws.WebService;
import jakarta.servlet.ServletConfig;
import org.apache.cxf.jaxws.JaxWsProxyFactoryBean;
import org.apache.cxf.jaxws.JaxWsServerFactoryBean;
import org.apache.cxf.transport.servlet.CXFNonSpringServlet;

/** The service by JAX-WS. */
public class Soap {
    /** Its interface. */
    @WebService(name = "TradeHistory", targetNamespace = "urn:trade")
    public interface Trade {
        Rest.Report get_last_sale(@WebParam(name = "symbol") String symbol);
    }

    /** Its implementation. */
    @WebService(endpointInterface = "Soap$Trade", targetNamespace = "urn:trade")
    public static class Sales implements Trade {
        @Override
        public Rest.Report get_last_sale(String symbol) {
            return new Rest().get_last_sale(symbol);
        }
    }

    /** Serves it at /soap. */
    public static class Servlet extends CXFNonSpringServlet {
        @Override
        protected void loadBus(ServletConfig configuration) {
            super.loadBus(configuration);
            JaxWsServerFactoryBean factory = new JaxWsServerFactoryBean();
            factory.setBus(getBus());
            factory.setAddress("/soap");
            factory.setServiceBean(new Sales());
            factory.create();
        }
    }

    static Trade client(String url) {
        JaxWsProxyFactoryBean factory = new JaxWsProxyFactoryBean();
        factory.setServiceClass(Trade.class);
        factory.setAddress(url);
        return (Trade) factory.create();
    }
}
